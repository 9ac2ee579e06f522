# SPDX-License-Identifier: MIT
"""What custash reports of the conformance cases that make wrong calls on purpose: by the check, and by case."""
from guard_reports import FAULT, PART, TWICE

# The cases make these wrong calls on purpose. Cases that are not listed must give no report.
EXPECTED = {
    "memory": {
        "contexts_freed_by_another_thread": [TWICE],
        "contexts_several_on_a_device": [TWICE],
        "errors_frees": 4 * [PART],
        "errors_frees_by_other_calls": 2 * [TWICE],
        "errors_sticky": [FAULT, "call after_free"],
        "errors_sticky_at_a_free": [FAULT],
        "errors_sticky_told_by_a_launch": [FAULT],
        "errors_sticky_told_by_a_query": [FAULT],
        "errors_sticky_told_by_a_stream": [FAULT],
        "errors_sticky_told_by_an_event": [FAULT],
        "errors_sticky_told_by_the_device": [FAULT],
        "life_frees_at_exit": [TWICE],
        "peers_frees": 3 * [TWICE],
        "pinned_driver_codes": [PART],
        "pinned_runtime_codes": [PART],
        "pitched_cubes": 6 * [TWICE],
        "pitched_heights": 15 * [TWICE],
        "pools_own_codes": [TWICE, PART],
        "streams_ordered_codes": [PART],
    },
    "streams": {},
}


def expected(check, case):
    return EXPECTED[check].get(case, []) if check else []
