"""The state machine with everything that befalls a process: it dies, its disk fails, another one takes over."""

import sqlite3
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.conformance.machine import ALL_TASKS, SEEDS, StoreMachine
from tests.conformance.reaping import recover
from tests.conformance.traps import Fault
from timewheel.errors import JournalError, JournalUnavailable, JournalUnknown, NotOwner
from timewheel.testing.builders import owner, stamp
from timewheel.testing.invariants import check_step, demand, nothing_changed
from timewheel.testing.recoveries import check_recovered

NUMBERS = st.one_of(st.just(0), st.integers(1, 8), st.integers(1, 25))  # few batches run more than eight statements
INSTEAD = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,
)
AFTER = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT)  # SQLite says neither "full" nor "busy" of what it has done
DEATHS = st.builds(Fault, NUMBERS, st.booleans(), st.none())
ERRORS = st.one_of(
    st.builds(Fault, NUMBERS, st.just(False), st.sampled_from(INSTEAD)),
    st.builds(Fault, NUMBERS, st.just(True), st.sampled_from(AFTER)),
)
ANY = st.one_of(DEATHS, ERRORS)


class FaultyMachine(StoreMachine):
    """See the module. Where a store has no statements (the model), an operation is written as it was elsewhere."""

    # ---- ends and beginnings -----------------------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(["_crash", "_close_and_open", "_reopen", "_usurp", "_strike_take_over"]),
        seed=SEEDS,
        fault=ANY,
    )
    def it_ends_and_another_begins(self, what, seed, fault):
        self._runner.run(getattr(self, what)(seed=seed, fault=fault))
        self._laws.append(nothing_changed)

    async def _crash(self, **_):
        for name, store in list(self._stores.items()):
            self._stores[name] = await self.factories[name].crashed(store)
        nothing_changed(self._dump, await self._agreed_dump())
        await self._own()

    async def _close_and_open(self, **_):
        for name, store in list(self._stores.items()):
            await store.close()
            self._stores[name] = await self.factories[name].another(store)
        await self._own()

    async def _reopen(self, **_):
        for store in self._stores.values():
            await store.reopen()

    # ---- a stale owner -----------------------------------------------------------------------------------------------

    @rule(seed=SEEDS, off=st.sampled_from([-1, 1]))
    def write_under_another_epoch(self, seed, off):
        changes = self._drawn(seed, 1, 5)
        self._runner.run(self._refused(self._stores, changes, self._epoch + off))
        self._laws.append(nothing_changed)

    async def _usurp(self, seed, **_):
        """Another process takes over, and this one does not know."""
        self.seen["usurped"] += 1
        changes = self._drawn(seed, 1, 5)
        olds, old_epoch = self._stores, self._epoch
        self._stores = {name: await self.factories[name].usurped(store) for name, store in olds.items()}
        await self._own()
        await self._refused(olds, changes, old_epoch, (NotOwner, JournalUnavailable))  # or its files look foreign
        for name, old in olds.items():
            await self.factories[name].forget(old)

    async def _refused(self, stores, changes, epoch, errors=NotOwner):
        """I22: whoever is not the newest owner writes nothing."""
        for name, store in stores.items():
            error = await _error_of(store.commit(changes, stamp(epoch, self._now)))
            demand(isinstance(error, errors), "I22", f"{name} lets epoch {epoch} write, or says so wrongly", error)

    # ---- the k-th statement of a commit ------------------------------------------------------------------------------

    @rule(seed=SEEDS, fault=DEATHS)
    def it_dies_in_a_commit(self, seed, fault):
        self._strike_and_try_again(seed, fault)

    @rule(seed=SEEDS, fault=ERRORS)
    def a_commit_fails(self, seed, fault):
        self._strike_and_try_again(seed, fault)

    def _strike_and_try_again(self, seed, fault):
        changes = self._drawn(seed, 1, 6)
        written = self._runner.run(self._strike(changes, fault))
        if not written and seed % 2:
            self.the_laws_hold()
            self._runner.run(self._commit(changes))

    async def _strike(self, changes, fault):
        """I3, I25: all of it is there, or nothing, and a failure is never told as a success. Whether it was written."""
        struck, outcomes = {}, {}
        for name, store in self._with_statements():
            hooks = self.factories[name]
            answer, error = await hooks.attempt(store, fault, lambda store=store: store.commit(changes, self._stamp))
            struck[name] = (error and store.trap.sprung, store.trap.committed, type(error))
            if error is None:
                demand(store.trap.committed, "I25", f"a success without a commit: {store.trap.sprung} failed", fault)
                outcomes[name] = await self._named(store, answer)
            else:
                await self._look_after_a_fault(name, store.trap.committed, error)
        if not struck:
            return True
        _, written, error = self._agreed(struck)
        for name, store in self._without_statements():
            if written:
                outcomes[name] = await self._named(store, await store.commit(changes, self._stamp))
        if error is type(None):
            self._expect_outcomes(changes, self._agreed(outcomes))
        else:
            self._laws.append(partial(check_step, letters=True) if written else nothing_changed)
            await self._go_on(fault, written, error)
        return written

    async def _look_after_a_fault(self, name, written, error):
        store = self._stores[name]
        if store.trap.image is not None:
            store = self._stores[name] = await self.factories[name].reborn(store, store.trap.image)
        else:
            demand(isinstance(error, JournalError), "I25", "an error that is not the journal's", error)
            if isinstance(error, JournalUnknown):
                again = await _error_of(store.commit([], self._stamp))
                demand(isinstance(again, JournalUnknown), "I25", "it goes on without being reopened", again)
                await store.reopen()
            else:
                demand(not written, "I25", "said to be not written, and it is", error)
        if not written:
            nothing_changed(self._dump, await store.dump())

    async def _go_on(self, fault, written, error):
        told = ", written" if written else ", nothing written"
        if fault.code is not None:
            self.seen[f"failed{told}" + (", unknown" if issubclass(error, JournalUnknown) else "")] += 1
            return
        self.seen[f"died{told}"] += 1
        for name, store in self._without_statements():
            self._stores[name] = await self.factories[name].crashed(store)
        await self._own()

    def _with_statements(self):
        return [(name, store) for name, store in self._stores.items() if hasattr(store, "trap")]

    def _without_statements(self):
        return [(name, store) for name, store in self._stores.items() if not hasattr(store, "trap")]

    # ---- the k-th statement of a take-over ---------------------------------------------------------------------------

    async def _strike_take_over(self, fault, **_):
        """I16: whatever befalls it, the next one succeeds, under an epoch that was never used."""
        for name, store in list(self._stores.items()):
            self._stores[name] = await self.factories[name].crashed(store)
        begun = {}
        for name, store in self._with_statements():
            begun[name] = await self._strike_one_take_over(name, store, fault)
        if begun and self._agreed(begun):  # the epoch is used
            for name, store in self._without_statements():
                await store.own(owner())
                self._stores[name] = await self.factories[name].crashed(store)
        await self._own()

    async def _strike_one_take_over(self, name, store, fault):
        """Whether the new epoch had begun."""
        hooks = self.factories[name]
        _, error = await hooks.attempt(store, fault, lambda: store.own(owner()))
        sprung = store.trap.sprung
        demand(sprung is not None or error is None, "I25", "it failed, and nothing had befallen it", fault, error)
        begun = store.trap.committed
        if fault.code is None and sprung:
            self.seen[f"died in a take-over, {'after' if begun else 'before'} its commit"] += 1
            self._stores[name] = await hooks.reborn(store, store.trap.image)
        elif error is not None:
            self.seen["a take-over failed"] += 1
            await store.close()
            self._stores[name] = await hooks.another(store)
        else:
            self._stores[name] = await hooks.crashed(store)
        return begun

    # ---- recovery ----------------------------------------------------------------------------------------------------

    @rule(tasks=ALL_TASKS, deaths=st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=2))
    def recover(self, tasks, deaths):
        """I16, I24: a recovery that dies at any of its commits, and the next one, come to the same end."""
        self._runner.run(self._recover(tasks, deaths))
        self._laws.append(lambda before, after: check_recovered(before, after, self._epoch, tasks, self._now))

    async def _recover(self, tasks, deaths):
        for dies_at, written in deaths:
            if await self._recover_all(tasks, dies_at, written):
                return
            self.seen["died in a recovery"] += 1
            for name, store in list(self._stores.items()):
                self._stores[name] = await self.factories[name].crashed(store)
            await self._own()
        await self._recover_all(tasks)
        self.seen["recovered"] += 1

    async def _recover_all(self, tasks, dies_at=0, written=False):
        return self._agreed(
            {name: await recover(store, self._stamp, tasks, dies_at, written) for name, store in self._stores.items()}
        )


async def _error_of(writing):
    try:
        await writing
    except (JournalError, NotOwner) as error:
        return error
    return None
