# SPDX-License-Identifier: MIT
"""What whole processes cannot show where QEMU runs them (tests/aarch64/README.md), each with its reason."""
import os
import sys
import unittest

SKIP = 77

HOST = "it runs this machine's programs under a library for another processor"
COMPILER = "it builds programs with this machine's compiler"
PROC = "/proc shows the emulator in place of the program"
SECURE = "QEMU does not tell a program that it changes its user"
SIGNALS = "QEMU handles some signals itself"
TIME = "it measures time"
TELLS = "QEMU itself tells of a fault on the terminal"
# By file: all tests of a file, or those named.
TABLE = {
    "python_module": {"*": HOST},
    "python_frames": {"*": HOST},
    "loading": {"*": HOST},
    "lines": {"*": "valgrind does not follow programs of another processor"},
    "old_glibc": {"*": HOST},
    "deep_trim": {"test_from_c_and_python": HOST},
    "live": {"test_two_processes_and_what_each_holds": PROC},
    "files": {"test_a_recording_stays_until_there_is_a_new_one": HOST, "test_a_report_stays_until_there_is_a_new_one": HOST},
    "files_refused": {"test_names_cannot_steer_the_terminal": PROC},
    "files_swapped": {"test_a_file_with_the_number_of_a_removed_log": HOST, "test_a_file_with_the_number_of_standard_error": HOST,
                      "test_a_page_with_a_second_name_is_nobody_s": HOST, "test_a_recording_that_is_another_file_at_the_end": HOST,
                      "test_closed_standard_streams_get_no_file_of_custash": HOST},
    "neighbours": {"test_names_that_are_no_services_take_no_time": TIME},
    "doctor": {"test_a_process_that_runs": PROC, "test_a_process_with_custash_linked_in": PROC, "test_another_user_s_process": PROC,
               "test_programs_that_cannot_be_served": COMPILER, "test_the_share_that_was_served": PROC,
               "test_what_a_driver_lacks": COMPILER, "test_what_cannot_be_known_is_said_to_be_unknown": PROC},
    "compare": {"*": HOST},
    "endings": {"test_every_end_with_every_report": TELLS, "test_memory_that_runs_out": TELLS, "test_no_cuda_is_one_line": HOST,
                "test_what_is_ignored_or_blocked_stays_so": SIGNALS},
    "history": {"test_a_form_that_the_launcher_cannot_make": PROC, "test_a_launcher_makes_them_while_the_program_runs": SIGNALS},
    "ranks": {"test_one_report_a_rank": HOST},
    "service": {"test_a_socket_of_the_program_under_its_number_gets_all_its_connections": HOST},
    "serve": {"test_64_processes_in_time": TIME, "test_all_processes_with_their_labels": PROC},
    "top": {"test_by_a_fault": TELLS, "test_four_ranks_are_one_table": PROC,
            "test_script_and_rank_in_place_of_python": HOST, "test_trim_asks_and_says_what_it_did": PROC},
    "beside": {"test_secure_execution_leaves_custash_out": SECURE},
    "checkers": {"test_a_loaded_collector_is_found": COMPILER},
    "report": {"test_lines_of_python": HOST, "test_lines_of_python_that_was_killed": HOST},
    "names": {"test_clang": COMPILER, "test_nvcc": COMPILER},
    "install": {"test_by_cmake": COMPILER, "test_linked_beside_the_shared_runtime": COMPILER,
                "test_linked_by_nvcc": COMPILER, "test_linked_by_pkg_config": COMPILER,
                "test_the_checks_are_linked_by_pkg_config": COMPILER,
                "test_the_python_module_knows_where_the_library_is": HOST},
}


def leave_out(module):
    """Marks the tests of a program's module that are in the table. All of them: ends the program, as skipped."""
    reasons = TABLE.get(os.path.splitext(os.path.basename(module.__file__))[0], {})
    if "*" in reasons:
        print("under QEMU: " + reasons["*"])
        sys.exit(SKIP)
    for case in list(vars(module).values()):
        for name, reason in reasons.items() if isinstance(case, type) else ():
            if name in vars(case):
                setattr(case, name, unittest.skip("under QEMU: " + reason)(getattr(case, name)))
