// The AI SDK with its results of tools compressed by `agora proxy` before each call.
//
//   npm install ai @ai-sdk/openai zod
//   agora proxy &
//   OPENAI_API_KEY=... AGORA_URL=http://127.0.0.1:8484 node prepare_step.mjs
import { generateText, stepCountIs, tool } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { z } from "zod";

const AGORA = process.env.AGORA_URL ?? "http://127.0.0.1:8484";
const MODEL = process.env.MODEL ?? "gpt-5";
const text = (output) => (output.type === "text" ? output.value : JSON.stringify(output.value));

const compress = async ({ messages }) => {
  const rows = messages.flatMap((m) => (m.role !== "tool" ? [] : m.content.map((part) => (
    { role: "tool", tool_call_id: part.toolCallId, name: part.toolName, content: text(part.output) }))));
  const body = JSON.stringify({ model: MODEL, messages: rows });
  const answer = await fetch(`${AGORA}/v1/compress`, { method: "POST", body }).catch(() => null);
  if (!answer?.ok) return {};
  const texts = new Map((await answer.json()).messages.map((row) => [row.tool_call_id, row.content]));
  const shorter = (part) => ({ ...part, output: { type: "text", value: texts.get(part.toolCallId) } });
  return { messages: messages.map((m) => (m.role !== "tool" ? m : { ...m, content: m.content.map(shorter) })) };
};

const read_page = tool({
  description: "Reads a page of the book.",
  inputSchema: z.object({ number: z.number() }),
  execute: async ({ number }) => `This is page ${number}. ` + `Word ${number} of chapter-${number}. `.repeat(60),
});

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });
const answer = await generateText({
  model: openai.chat(MODEL),
  tools: { read_page },
  stopWhen: stepCountIs(60),
  prompt: "Read the pages one after another and answer at the end.",
  prepareStep: compress,
});
console.log(JSON.stringify({ steps: answer.steps.length, text: answer.text }));
