// SPDX-License-Identifier: MIT
// Rule: the ordering rules of custash, each under a name that stands where the code keeps the
// rule. In the product every rule holds, and nothing of this is compiled. The tests are also
// built with CUSTASH_RULES=1. There, tests/mutants removes one rule at a time, and some test
// must fail (docs/testing.md lists the rules).
#pragma once

namespace custash {

// clang-format off
#define CUSTASH_EACH_RULE(RULE) \
  RULE(quick_frees_have_a_fence) \
  RULE(calls_count_when_they_return) \
  RULE(streams_pay_what_is_owed) \
  RULE(destroyed_streams_leave_an_event) \
  RULE(stream_states_serve_again_when_idle) \
  RULE(new_streams_have_paid_nothing) \
  RULE(no_context_event_in_a_capture) \
  RULE(free_events_are_recorded) \
  RULE(free_events_are_of_that_free) \
  RULE(free_events_stand_until_their_stream_works) \
  RULE(free_events_stand_until_legacy_work) \
  RULE(refused_waits_are_made_here) \
  RULE(results_on_the_legacy_stream_are_no_barrier) \
  RULE(results_without_event_are_waited_for) \
  RULE(debt_is_paid_with_the_fence_of_the_free) \
  RULE(unpayable_debt_is_waited_for) \
  RULE(debt_abroad_is_waited_for) \
  RULE(work_is_fenced_before_a_capture) \
  RULE(work_has_an_event_before_its_stream_captures) \
  RULE(frees_count_where_work_is_unseen) \
  RULE(fences_cover_what_came_before) \
  RULE(one_stream_alone_is_in_order) \
  RULE(tails_are_the_newest) \
  RULE(fences_cover_every_stream) \
  RULE(no_event_lands_in_a_capture) \
  RULE(late_fences_are_no_barrier) \
  RULE(late_fences_are_only_asked) \
  RULE(fences_stay_for_the_host) \
  RULE(fences_cover_the_position) \
  RULE(pending_fences_have_not_passed) \
  RULE(unfenced_work_is_waited_for) \
  RULE(streams_with_a_call_under_way_work) \
  RULE(capture_steps_wait_for_fences) \
  RULE(fences_wait_for_capture_steps) \
  RULE(ending_contexts_are_passed_by) \
  RULE(a_context_ends_after_its_users) \
  RULE(merged_blocks_keep_the_later_fence) \
  RULE(merged_blocks_keep_the_later_order) \
  RULE(merged_blocks_of_two_streams_are_nobody_s) \
  RULE(fences_must_be_acceptable) \
  RULE(orders_must_have_passed) \
  RULE(parts_wait_as_the_block_did) \
  RULE(pages_in_use_are_not_given_back) \
  RULE(pages_mapped_twice_are_not_given_back) \
  RULE(moved_pages_are_acceptable) \
  RULE(guarded_blocks_lend_nothing) \
  RULE(guarded_addresses_rest) \
  RULE(work_comes_after_fills) \
  RULE(driver_memory_is_charged_before_the_call) \
  RULE(memory_that_leaves_the_sight_is_filled) \
  RULE(thread_caches_are_emptied_without_their_owner) \
  RULE(no_debt_with_unpaid_peers) \
  RULE(no_debt_where_the_host_hands_over) \
  RULE(no_debt_in_a_capture) \
  RULE(a_stream_holds_back_no_graph) \
  RULE(lost_free_events_are_waited_for) \
  RULE(refused_frees_free_nothing) \
  RULE(unseen_work_is_paid_for_at_the_allocation) \
  RULE(no_hoarding_where_no_debt_is) \
  RULE(hand_outs_take_debt) \
  RULE(hand_outs_wait_for_the_stream_of_the_free) \
  RULE(each_thread_has_its_own_stream) \
  RULE(each_green_context_has_a_legacy_stream) \
  RULE(stream_states_of_freed_blocks_serve_nobody_else) \
  RULE(frees_wait_for_results) \
  RULE(frees_wait_for_engines) \
  RULE(frees_wait_for_copies_of_other_contexts) \
  RULE(frees_wait_for_launches_that_reach_the_host) \
  RULE(blocks_of_several_streams_are_nobody_s) \
  RULE(captured_blocks_stay_with_graphs) \
  RULE(exported_blocks_stay_when_freed) \
  RULE(exported_pages_wait_for_work) \
  RULE(exported_pages_wait_for_their_neighbours) \
  RULE(pages_on_their_way_to_others_stay) \
  RULE(captured_blocks_wait_for_launches) \
  RULE(moved_pages_wait_as_before) \
  RULE(new_pages_reach_new_peers) \
  RULE(tickets_cover_every_context) \
  RULE(tickets_hold_back_no_other_device) \
  RULE(tickets_pass_in_every_context) \
  RULE(peers_pay_what_is_owed) \
  RULE(exported_blocks_take_the_long_way) \
  RULE(blocks_closed_elsewhere_wait_for_work_here) \
  RULE(memory_that_leaves_the_sight_is_quiet) \
  RULE(hits_are_of_their_own_stream) \
  RULE(hits_are_clear_or_payable) \
  RULE(hits_take_debt) \
  RULE(used_blocks_have_a_fence) \
  RULE(free_never_leaves_no_block_unfenced) \
  RULE(quick_frees_wait_for_results) \
  RULE(kept_blocks_take_the_long_way) \
  RULE(freed_blocks_leave_their_account) \
  RULE(quick_frees_leave_their_account) \
  RULE(pools_end_at_their_maximum) \
  RULE(no_hits_in_a_capture) \
  RULE(no_hits_in_debt_where_it_must_be_over) \
  RULE(ordered_frees_pass_by_their_events) \
  RULE(plain_memory_goes_back_when_idle) \
  RULE(memory_freed_abroad_waits_for_its_event) \
  RULE(waits_that_bare_does_not_make_end) \
  RULE(large_frees_on_a_stream_have_an_event) \
  RULE(old_addresses_stay_while_used) \
  RULE(unseen_peers_pay_nothing) \
  RULE(what_is_owed_is_over_before_unpaid_peers) \
  RULE(green_contexts_are_their_primary_s) \
  RULE(frees_wait_for_other_contexts_of_the_device) \
  RULE(slabs_wait_for_what_their_page_waits) \
  RULE(pages_wait_for_what_their_blocks_wait) \
  RULE(copies_reach_other_devices) \
  RULE(waits_of_streams_count) \
  RULE(kernels_that_reach_the_host_are_waited_for) \
  RULE(graphs_that_reach_the_host_are_waited_for) \
  RULE(copies_pay_the_other_context) \
  RULE(graphs_pay_every_context) \
  RULE(early_launches_wait_while_memory_is_owed) \
  RULE(captured_blocks_wait_for_every_graph) \
  RULE(captured_blocks_wait_for_captures) \
  RULE(threads_of_a_capture_keep_their_blocks) \
  RULE(captured_calls_keep_what_they_name) \
  RULE(unread_calls_keep_every_block) \
  RULE(graphs_keep_what_they_are_made_of) \
  RULE(blocks_that_graphs_name_are_not_for_the_ladder) \
  RULE(threads_forget_destroyed_streams) \
  RULE(a_context_ends_after_frees_elsewhere) \
  RULE(batches_pay_the_other_context) \
  RULE(ended_threads_give_their_stream_state_back) \
  RULE(dma_bufs_are_of_quiet_memory) \
  RULE(exported_handles_are_of_quiet_memory) \
  RULE(early_launches_lose_their_attribute) \
  RULE(importers_live_until_their_process_ends) \
  RULE(memory_of_network_cards_is_quiet) \
  RULE(debt_taken_beside_a_launch_is_waited_for) \
  RULE(debt_outlives_a_free_on_a_stream) \
  RULE(calls_under_way_are_not_waited_for) \
  RULE(the_oldest_fence_stays) \
  RULE(calls_beside_a_coming_capture_have_an_event) \
  RULE(freed_buffers_wait_for_a_ticket) \
  RULE(frees_of_buffers_wait_for_results) \
  RULE(quick_frees_of_buffers_are_idle) \
  RULE(quick_frees_of_buffers_wait_for_results) \
  RULE(buffers_wait_for_all_named_streams) \
  RULE(buffers_are_unpinned_when_idle) \
  RULE(calls_that_wait_hold_work_back) \
  RULE(a_context_ends_after_its_buffers_use) \
  RULE(buffers_in_limbo_wait_for_their_ticket) \
  RULE(pitches_are_of_their_width) \
  RULE(submissions_wait_for_their_memory) \
  RULE(contents_are_saved_when_work_is_over) \
  RULE(copies_are_of_the_contents) \
  RULE(pages_on_their_way_to_sleep_stay) \
  RULE(cut_pages_keep_their_contents) \
  RULE(copies_end_before_their_pages_go)
// clang-format on

enum class Rule {
#define CUSTASH_RULE(name) name,
  CUSTASH_EACH_RULE(CUSTASH_RULE)
#undef CUSTASH_RULE
};

#if CUSTASH_RULES
bool holds(Rule rule);  // tests/mutants/without.cpp
#else
constexpr bool holds(Rule) {
  return true;
}
#endif

}  // namespace custash
