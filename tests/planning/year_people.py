"""What people do to a schedule in a year, and when it is looked at: the model's loop."""

from __future__ import annotations

from dataclasses import replace

from tests.planning.year_history import NEVER
from tests.planning.year_model import Row, Standing


class Life(Standing):
    """One schedule's year, as it must have been."""

    def __init__(self, script, history, seen, near):
        super().__init__(history, script.length, seen, near)
        self.script = script
        self.t = 0
        self.until = None  # wall: when a pause ends by itself

    def live(self, ops):
        """The account of the whole year."""
        looks = [(at, "look", None) for at in self.history.looks]
        books = [(at, "book", book) for at, book in self.script.books]
        for at, what, value in sorted([*looks, *books, *ops], key=lambda one: one[0]):
            self.wake_until(at)
            self.t = at
            self.jobs.advance(at)
            if what == "look" and self.state == "NONE":
                continue
            getattr(self, f"do_{what}")(value)
        self.wake_until(self.length)
        self.jobs.advance(self.length)
        return self.account

    # ---- when it is looked at ----------------------------------------------------------------------------------------

    def wake_until(self, at):
        while (wake := self.wake()) < at:
            assert wake >= self.t
            self.t = wake
            self.jobs.advance(wake)
            if self.state == "PAUSED":
                self.do_resume(None)
            elif not (self.next_at is None and self.jobs.of_rule):
                self.plan()

    def wake(self):
        if self.state == "PAUSED":
            return NEVER if self.until is None else self.history.when(self.until, False, self.t)
        if self.state != "ACTIVE":
            return NEVER
        if self.catch_up_at is not None:
            return self.history.when(self.catch_up_at, True, self.t)
        if self.next_at is None:  # a fixed delay: when what runs has ended
            return min((job.end for job in self.jobs.unfinished), default=self.t) if self.jobs.of_rule else self.t
        return self.history.when(self.next_at, self.steady, self.t)

    def do_look(self, _):
        """The process started, the machine woke, or a clock was set."""
        if self.state == "ACTIVE" and (self.rule.fixed_delay or self.due() or self.at > self.now):
            self.plan()

    # ---- what people do ----------------------------------------------------------------------------------------------

    def do_declare(self, definition):
        self.made, self.state = 0, "ACTIVE"
        self.begin(self.script.current(definition, self.t))
        self.may_have_ended()

    def do_again(self, definition):
        """Nothing changes, as it is equal."""

    def may_have_ended(self):
        if self.state == "ACTIVE" and self.next_at is not None and self.next_at >= NEVER:
            self.state = "ENDED"

    def do_edit(self, definition):
        new = self.script.current(definition, self.t)
        if new == self.definition:
            return
        same = new.rule == self.rule and new.start_us == self.definition.start_us
        if same and self.state != "ENDED":
            self.take(new)
            if not self.rule.fixed_delay:
                self.look_ahead()
        else:
            self.leave()
            self.begin(new)
            self.state = "PAUSED" if self.state == "PAUSED" else "ACTIVE"
        self.may_have_ended()

    def do_book(self, book):
        if self.state == "NONE" or self.rule.book is None or self.rule.book.name != book.name or self.rule.book == book:
            return
        new = self.script.current(self.definition, self.t)
        if self.state == "ENDED":
            self.take(new)
            return
        self.leave()
        self.begin(new)

    def do_pause(self, length):
        if self.state not in ("NONE", "ENDED"):
            self.state = "PAUSED"
            self.until = None if length is None else self.history.reading(self.t, False) + length

    def do_resume(self, _):
        if self.state == "PAUSED":
            self.state = "ACTIVE"
            self.plan("paused")

    def do_trigger(self, force):
        row = None if force else self.admit(self.now, "manual")
        self.account.manual.append(row or Row(self.now, "job", None, self.make(self.now, "manual", force=force)))

    def do_drop(self, _):
        self.leave()
        self.state = "NONE"

    def leave(self):
        """What has come and did not run by now never will."""
        if self.state not in ("ACTIVE", "PAUSED") or (self.state == "ACTIVE" and self.catch_up_at is None):
            return
        silent = replace(self.definition, misfire="SKIP", grace_us=-1)
        state, spoken, self.definition = self.state, self.definition, silent
        self.plan("paused" if state == "PAUSED" else "catch_up")
        self.state, self.definition = state, spoken
