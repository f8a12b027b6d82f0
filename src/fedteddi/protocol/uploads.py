"""What an aggregation is given: the uploads that arrived, and what reports say about them and about everyone."""

import numpy as np

from fedteddi.aggregation import Received, Vector
from fedteddi.heterogeneity.mixes import pooled_mix, sample_shares
from fedteddi.heterogeneity.sharing import bounded_counts
from fedteddi.protocol.checks import ReceivedReports
from fedteddi.protocol.state import ServerState
from fedteddi.settings import Settings


def received_uploads(
    state: ServerState, settings: Settings, reports: ReceivedReports, arrived: dict[int, Vector]
) -> Received:
    """Put uploads beside their senders' reports; α is over these uploads, everyone's mix over all who reported."""
    clients, bound = np.array(list(arrived)), settings.server.max_sample_share
    rows = np.searchsorted(reports.clients, clients)
    counted = bounded_counts(reports.num_samples, bound)  # of all, [N], as the scheduler sees them
    return Received(
        frame=state.frame,
        round=state.round,
        model=state.weights,
        uploads=tuple(arrived.values()),
        shares=sample_shares(bounded_counts(reports.num_samples[rows], bound)),
        client_id=clients,
        rounds_in_frame=settings.rounds[state.frame],
        batch_mix=reports.batch_mix[rows],
        data_mix=reports.data_mix[rows],
        everyone_batch_mix=pooled_mix(counted, reports.batch_mix),
        everyone_data_mix=pooled_mix(counted, reports.data_mix),
        classes_seen=state.classes_seen,
        max_sample_share=bound,
    )
