"""Choose the form of each step: passes over the steps, newest first, until the room is full.

1. A line for every step that may have changed something. Then, word for word, the newest copy of
   each file or script that the agent itself wrote. Then a line for every step that only reads.
2. Agents that call tools: one more level of facts for each step in turn, then calls word for word.
   Agents that act by text: the command word for word, with facts.
3. Whole results.

A scorer may put another order in the place of newest first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agora.core.action_lines import action_lines
from agora.core.actions import Tools, changes
from agora.core.compression import Decision
from agora.core.facts import facts_in, names_in, words_in
from agora.core.forms import Form, Options, omitted, options_of
from agora.core.markers import Markers
from agora.core.past import Past
from agora.core.tokens import TokenCounter

_ATTEMPTS = 4
_REASONS = {
    "whole": "it fits",
    "note": "its call stays",
    "line": "no room for more",
    "omitted": "only read, no room",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The forms of all steps of a past, ready to be chosen from for any budget."""

    past: Past
    protected: Mapping[int, str]
    """The steps that stay whole, each with the reason."""
    options: Sequence[Options]
    """The forms of the other steps, the oldest step first."""
    scores: Sequence[float]
    """The score of each step of the past."""
    marker_tokens: int
    """The tokens of a marker without its lines."""

    def decide(self, budget: int) -> tuple[Decision, ...]:
        """Return the decision on each step if the past may cost `budget` tokens."""
        fixed = sum(s.tokens for s in self.past.steps if s.number in self.protected)
        forms = {form.number: form for form in self._fit(budget - self.past.fixed_tokens - fixed)}
        return tuple(
            self._decision(at, forms.get(step.number)) for at, step in enumerate(self.past.steps)
        )

    def _decision(self, at: int, form: Form | None) -> Decision:
        step, score = self.past.steps[at], self.scores[at]
        if form is None:
            reason = self.protected[step.number]
            return Decision(step.number, "protected", reason, step.tokens, score)
        if form.kind == "whole":
            return Decision(step.number, "kept", _REASONS["whole"], step.tokens, score)
        return Decision(step.number, "elided", _REASONS[form.kind], step.tokens, score, form)

    def _fit(self, room: int) -> list[Form]:
        """Return a form for each step; with their markers they fit the room if any do."""
        forms: list[Form] = []
        short = 0
        for _ in range(_ATTEMPTS):
            forms = self._fill(room - short)
            excess = sum(form.tokens for form in forms) + self._runs(forms) * self.marker_tokens
            if excess <= room or short >= room:
                break
            short += excess - room
        return forms

    def _fill(self, room: int) -> list[Form]:
        forms = [options.least for options in self.options]
        left = room - sum(form.tokens for form in forms)

        def take(at: int, form: Form) -> bool:
            nonlocal left
            cost = form.tokens - forms[at].tokens
            if cost > max(left, 0):
                return False
            left -= cost
            forms[at] = form
            return True

        newest_first = self._order()
        written = {""}
        for at in newest_first:
            options = self.options[at]
            if options.written not in written and options.word_for_word:
                written.add(options.written)
                take(at, options.word_for_word)
        for at in newest_first:
            if forms[at].kind == "omitted" and self.options[at].shorter:
                take(at, self.options[at].shorter[0])
        if self._acts_by_text:
            for at in newest_first:
                for form in sorted(self.options[at].shorter, key=_tokens, reverse=True):
                    if form.tokens <= forms[at].tokens or take(at, form):
                        break
        else:
            for level in range(1, max((len(o.shorter) for o in self.options), default=0)):
                for at in newest_first:
                    shorter = self.options[at].shorter
                    if level < len(shorter) and forms[at] is shorter[level - 1]:
                        take(at, shorter[level])
        for at in newest_first:
            take(at, self.options[at].whole)
        return forms

    def _order(self) -> list[int]:
        """Return the places of the options, best score first and the newest on a tie."""
        scores = [self.scores[options.whole.number - 1] for options in self.options]
        return sorted(range(len(scores)), key=lambda at: (scores[at], at), reverse=True)

    @property
    def _acts_by_text(self) -> bool:
        steps = self.past.steps
        return 2 * sum(bool(step.calls) for step in steps) < len(steps)

    def _runs(self, forms: Sequence[Form]) -> int:
        """Return the number of markers for the removed steps.

        A marker does not reach over a user's words if these could hold one.
        """
        by_calls = {step.number for step in self.past.steps if step.calls}
        interrupted = {u.after for u in self.past.utterances if u.by_user} - by_calls
        removed = [form.number for form in forms if not form.in_place]
        return len(removed) - sum(
            after == before + 1 and before not in interrupted for before, after in pairwise(removed)
        )


def _tokens(form: Form) -> int:
    return form.tokens


def choices_of(
    past: Past,
    scores: Sequence[float],
    *,
    protected: Mapping[int, str],
    tools: Tools,
    markers: Markers,
    counter: TokenCounter,
) -> Choices:
    """Work out the forms of all steps. A fact of several steps is given by the newest of them."""
    texts = [past.preamble, *(utterance.text for utterance in past.utterances)]
    known: set[str] = set()
    for step in past.steps:
        if step.number in protected:
            texts += [step.action, step.observation]
            known.update(fact.name for r in step.results for fact in facts_in(r.text))
        elif step.calls:
            texts += action_lines(step, tools)
    known = known.union(*map(names_in, texts))
    topics = frozenset[str]().union(
        words_in(past.query.task), *(words_in(utterance.text) for utterance in past.utterances)
    )
    in_place = _steps_kept_in_place(past, tools)
    options: list[Options] = []
    for step in reversed(past.steps):
        if step.number in protected:
            continue
        options.append(
            options_of(
                step,
                known,
                topics,
                keeps_place=step.number in in_place,
                tools=tools,
                counter=counter,
            )
        )
        known.update(fact.name for r in step.results for fact in facts_in(r.text))
    marker = markers.run([omitted(100), omitted(200)])
    return Choices(
        past=past,
        protected=protected,
        options=options[::-1],
        scores=scores,
        marker_tokens=counter.count(marker) + 1,
    )


def _steps_kept_in_place(past: Past, tools: Tools) -> frozenset[int]:
    """Return the steps that keep their calls, so that each marker has its place among results.

    A tool's words have no place in a user's message, so a marker goes into the last result before
    its steps. The first step has no result before it. And a change that the user asked for must not
    seem older than the request. An agent that acts by text has only the user's messages.
    """
    spoken = {0, *(utterance.after for utterance in past.utterances if utterance.by_user)}
    kept: set[int] = set()
    after_user = False
    for step in past.steps:
        after_user = after_user or step.number - 1 in spoken
        holds = step.calls and not step.fixed
        if after_user and holds and (not kept or changes(step, tools)):
            kept.add(step.number)
            after_user = False
    return frozenset(kept)
