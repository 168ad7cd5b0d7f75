"""The executor that a user asks for."""

from __future__ import annotations

from egraph_fusion.convert.executors.local import LocalProcesses
from egraph_fusion.convert.executors.tasks import Executor


def executor_for(cluster: str | None, jobs: int | None) -> Executor:
    """Return processes of this machine, or the Dask cluster at an address ("local": of our own).

    Raises EgraphFusionError if the cluster cannot be used.
    """
    if cluster is None:
        return LocalProcesses(jobs)
    from egraph_fusion.convert.executors.cluster import DaskCluster

    return DaskCluster(cluster, jobs)
