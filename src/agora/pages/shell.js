/* What every page starts with: its data, elements, numbers, colours. */
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

/* Elements. Text from logs only ever becomes a text node. */
function set(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}
const h = (tag, props, ...children) => set(document.createElement(tag), props, children);
const s = (tag, props, ...children) => set(document.createElementNS(SVG, tag), props, children);
const fill = (node, ...children) => { node.replaceChildren(); return set(node, {}, children); };

/* Numbers */
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const tenth = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const n = (value) => whole.format(value);
function short(value) {
  if (value >= 999950000) return tenth.format(value / 1e9) + " G";
  if (value >= 999950) return tenth.format(value / 1e6) + " M";
  if (value >= 10000) return tenth.format(value / 1e3) + " k";
  return n(value);
}
function money(value, unit) {
  if (unit === "seconds") return (value >= 10 || !value ? tenth.format(value) : value.toPrecision(2)) + " s";
  if (value === 0) return "$0";
  if (value >= 1) return "$" + cents.format(value);
  if (value >= 0.001) return "$" + value.toFixed(4);
  return "$" + value.toPrecision(2);
}
const percent = (part, of) => (of ? tenth.format((100 * part) / of) + "%" : "–");
const many = (count, one, more) => `${n(count)} ${count === 1 ? one : more || one + "s"}`;

/* What the address asks for: #theme=dark&open=3 */
const asked = new URLSearchParams(location.hash.slice(1));

/* Theme */
const THEMES = ["auto", "light", "dark"];
let theme = asked.get("theme");
try { theme = theme || localStorage.getItem("agora-theme"); } catch { /* no storage: auto */ }
if (!THEMES.includes(theme)) theme = "auto";
function paintTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const [sign, name] = { auto: ["◐", "Auto"], light: ["☀", "Light"], dark: ["☾", "Dark"] }[theme];
  fill($("theme"), h("span", { "aria-hidden": "true" }, sign), h("span", { class: "wide" }, ` ${name}`));
  $("theme").setAttribute("aria-label", `Colours: ${theme}. Change`);
}
$("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try { localStorage.setItem("agora-theme", theme); } catch { /* not kept */ }
  paintTheme();
});
paintTheme();
