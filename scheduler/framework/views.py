"""The views of the task classes of a session: filters and scores are created once for each class, and are kept.

Classes and jobs whose filters and scores are equal share a view. Its key is what these depend on: the class, the parts
that plugins registered with ``per_queue`` and ``per_job``, and the states of its volume claims.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter

from scheduler.api.job import Job
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.pod_rules import without_pin
from scheduler.api.task import TaskClass
from scheduler.framework.answers import Answers
from scheduler.framework.class_view.runs import SearchDurations, SearchRules
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.columns import Filter, PinUse, Score
from scheduler.framework.combining import is_whole
from scheduler.framework.extension import BEST_NODE
from scheduler.framework.failures import PluginError, RegistrationError
from scheduler.framework.plugin_session import PluginSession


class Views(Answers):
    """The part of a session that chooses nodes for tasks of a class."""

    plugin_session: PluginSession

    def __init__(self, tiers: int, nodes: Nodes, nodes_limit: int) -> None:
        """``tiers``: the number of tiers in the configuration. ``nodes_limit``: how many feasible nodes to consider for
        a task; 0: all."""
        super().__init__(tiers)
        self.nodes = nodes
        self.search_durations = SearchDurations()
        self._search_rules = SearchRules(nodes_limit, self.search_durations, self.fail_column)
        self.searches = 0
        """How often nodes were searched for tasks of a class so far. Other threads read it: while it grows, the session
        makes progress."""
        self._views: dict[tuple[object, ...], ClassView] = {}
        self._views_by_identity: dict[tuple[object, ...], ClassView] = {}
        """The views that other classes may share, by request and identities of filters and scores."""
        self._viewing: Job | None = None
        """The job whose filters and scores are being created."""

    def view_key(self, cls: TaskClass, job: Job) -> tuple[object, ...]:
        """Returns a key that is equal for classes and jobs with equal filters and scores."""
        key: list[object] = [cls.shape_id if cls.claims else cls.id]
        try:
            for part in self.parts:
                key.append(part(job))
        except Exception as error:  # the code of others may raise anything
            self._fail(f"{self.part_points[self.parts.index(part)].name} key", part, error, cls, job)
        if cls.claims:
            try:
                for state in self.claim_states:
                    key.append(state(cls))
            except Exception as error:  # the code of others may raise anything
                self._fail("ClaimState", state, error, cls, job)
        return tuple(key)

    def view(self, cls: TaskClass, job: Job) -> ClassView:
        """Returns the view of a class; kept for the session."""
        self.searches += 1
        key = self.view_key(cls, job)
        view = self._known_view(key, cls, job)
        return self._new_view(key, cls, job) if view is None else view

    def choose(self, cls: TaskClass, job: Job, count: int, within: Rows | None = None) -> list[int]:
        """Returns rows for up to ``count`` tasks of a class, as ``choose`` of its view.

        There may be a class for each node, as for the Pods of a DaemonSet, and a view for each would cost more than all
        else. So one view of the first of these classes, without its node, says which nodes have room. A class whose
        node has none gets its own view, which has the reasons. A view that a class has is used: it finds places for
        many Pods of the class in less time.
        """
        row = self.nodes.index.get(cls.pinned_to) if cls.pinned_to and within is None else None
        try:
            if row is not None and PinUse.REQUIRED in self.pin_uses and PinUse.ASKED not in self.pin_uses:
                key = self.view_key(cls, job)
                own = self._known_view(key, cls, job)
                if own is not None:
                    return own.choose(count)
                key = ("without node", cls.pin_id, *key[1 : 1 + len(self.parts)])
                view = self._known_view(key, cls, job)
                if view is None:
                    self.view(cls, job)  # malformed fields are reported for a class that a Pod has
                    view = self._new_view(key, replace(cls, spec=without_pin(cls.spec)), job, scored=False)
                rows = view.choose_on(row, count)
                if rows:
                    return rows
            return self.view(cls, job).choose(count, within)
        except PluginError as error:
            error.add_subject(cls, job, node=cls.pinned_to if row is not None else "")
            raise

    def _known_view(self, key: tuple[object, ...], cls: TaskClass, job: Job) -> ClassView | None:
        try:
            return self._views.get(key)
        except TypeError:
            raise self._unhashable(job, cls) from None

    def _new_view(self, key: tuple[object, ...], cls: TaskClass, job: Job, *, scored: bool = True) -> ClassView:
        plugin_session = self.plugin_session
        placing, plugin_session.placing = plugin_session.placing, None
        self._viewing = job
        began = perf_counter()
        filters = self.filters(cls, job)
        filtered = perf_counter()
        scores = self.scores(cls, job) if scored else []
        ended = perf_counter()
        view = self._views[key] = self._shared_view(cls, filters, scores)
        self.search_durations.creating_filters += filtered - began
        self.search_durations.creating_scores += ended - filtered
        self._viewing, plugin_session.placing = None, placing
        return view

    def _shared_view(self, cls: TaskClass, filters: Sequence[Filter], scores: Sequence[Score]) -> ClassView:
        """Returns the view of another class if that gives equal answers, else a new one."""
        identities = []
        try:
            for each in (*filters, *scores):
                identities.append(getattr(each, "identity", None))
        except Exception as error:  # the code of others may raise anything
            self.fail_column(each, "identity", error)
        shared = None not in identities and not self.functions(BEST_NODE)
        key = (cls.request.tobytes(), cls.best_effort, len(filters), *identities)
        view = self._views_by_identity.get(key) if shared else None
        if view is not None:
            view.include(cls)
            return view
        chooser = partial(self._best_node, cls) if self.functions(BEST_NODE) else None
        view = ClassView(
            self.nodes,
            cls,
            filters,
            scores,
            self._search_rules,
            check_resources=not cls.best_effort,
            chooser=chooser,
        )
        if shared:
            self._views_by_identity[key] = view
        return view

    def _best_node(self, cls: TaskClass, rows: Rows, scores: Column) -> int | None:
        """Returns the row of the best of the candidate nodes, or None if no plugin decides."""
        try:
            for function in self.all_functions(BEST_NODE):
                row = function(cls, rows, scores)
                if row is None:
                    continue
                if not is_whole(row) or row not in rows:
                    self._wrong_answer(function, row, "one of the rows that it received, or None")
                return int(row)
        except Exception as error:  # the code of others may raise anything
            self._fail(BEST_NODE, function, error)
        return None

    def _unhashable(self, job: Job, cls: TaskClass) -> RegistrationError:
        """Returns the error for the function whose value for a job and a class is not hashable."""
        for part, point in zip(self.parts, self.part_points, strict=True):
            try:
                hash(part(job))
            except TypeError as error:
                problem = f"per_queue or per_job returned a value that is not hashable: {error}"
                return RegistrationError(self.plugin_of(part), point.name, problem)
        for state in self.claim_states:
            try:
                hash(state(cls))
            except TypeError as error:
                problem = f"returned a value that is not hashable: {error}"
                return RegistrationError(self.plugin_of(state), "ClaimState", problem)
        raise AssertionError("all parts of the key are hashable")
