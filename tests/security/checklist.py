"""What is promised about security, and the tests that show it, wherever they are.

A promise is a line, then the files below `tests/` and their tests that show it. `test_checklist.py` sees that all of
these are there, and that no test of this folder is left out. ``python -m tests.security.checklist`` prints the list.
"""

from __future__ import annotations

from typing import NamedTuple

LIST = """
Ray: the jobs API, the dashboard and Serve's REST API ask for the token, by whatever path they are called
    security/test_ray.py
        test_an_address_of_jobs_dashboard_and_serve_asks_for_the_token test_nobody_starts_a_job_without_the_token
        test_nobody_is_told_the_token
    integration/test_job_submit.py
        test_the_jobs_api_refuses_those_without_the_token
    unit/doctor/test_cluster.py
        test_our_token_is_shown_to_nobody_else

Ray: no web page starts a job or deploys an application, not even one with the dashboard's cookie
    security/test_ray.py
        test_no_web_page_starts_a_job

Ray: what listens beyond loopback is known, and asks for the token or tells metrics only
    security/test_ray.py
        test_what_other_machines_reach_is_known_and_asks_for_the_token
    integration/test_serve_command.py
        test_it_listens_where_it_says_finishes_what_it_does_and_leaves_nothing
        test_haproxy_answers_and_what_listens_with_it
    integration/test_stack.py
        test_all_but_ray_listen_on_loopback_alone
    unit/stack/test_parts.py
        test_every_server_is_told_to_listen_on_loopback

Ray: clusters of ours, images, Compose and manifests have the token on, in files of mode 0600 or secrets
    unit/test_ray_cluster.py
        test_a_local_cluster_has_a_token_of_its_own
    manifests/test_compose.py
        test_ray_asks_for_a_token_on_every_node
    manifests/test_kuberay_policy.py
        test_ray_asks_for_its_token_everywhere
    manifests/test_docker.py
        test_ray_asks_for_a_token
    security/test_sources.py
        test_nothing_that_is_deployed_switches_protection_off
        test_the_search_for_protection_that_is_switched_off_finds_it

Ray: a Ray with a known hole is an error
    unit/doctor/test_cluster.py
        test_an_old_ray_is_an_error_that_names_the_advisories

endpoint: beyond loopback it does not start without keys, and asks for one at every address but its health
    unit/serve/test_keys.py
        test_an_endpoint_that_others_reach_must_have_keys test_without_a_valid_key_the_handler_is_never_reached
        test_only_open_paths_need_no_key_also_below_a_prefix test_a_websocket_does_not_slip_through
    unit/serve/test_guards.py
        test_an_endpoint_for_others_asks_for_a_key_everywhere_but_for_its_health
    integration/test_serve_command.py
        test_a_host_that_others_reach_is_refused_without_keys
    security/test_endpoint.py
        test_strangers_wrong_and_revoked_keys

endpoint: a revoked or expired key ends at once; all keys are compared in constant time; only hashes are kept
    unit/serve/test_keys.py
        test_keys_come_and_go_with_the_file_at_most_a_second_later test_a_key_is_good_through_its_last_day
        test_every_key_is_compared_in_constant_time_wherever_the_match_is
        test_a_key_is_long_random_and_only_its_hash_is_in_the_file

endpoint: without keys, no web page of another site or of a name that was made to lead here gets an answer
    unit/serve/test_security.py
        test_without_keys_only_this_machines_programs_and_pages_may_ask
        test_a_request_without_host_or_with_two_is_refused
    unit/serve/test_guards.py
        test_cross_origin_requests_are_off_and_on_for_the_origins_named
    unit/serve/test_keys.py
        test_every_origin_without_keys_is_refused
    integration/test_serve.py
        test_a_web_page_gets_nothing_of_an_endpoint_without_keys

endpoint: large, deep, compressed and slow requests are refused; nothing that a client sends breaks it
    unit/serve/test_limits.py
        test_a_longer_body_is_refused_before_any_of_it_is_read
        test_a_coded_body_is_refused_so_nothing_is_ever_unpacked
        test_a_body_that_drips_is_cut_off_though_each_piece_comes_soon test_address_and_headers_are_bounded
    unit/serve/test_reading.py
        test_json_is_read_strictly test_what_is_no_turtle_is_refused_with_its_line test_literals_are_not_interpreted
    unit/serve/test_fuzz.py
        test_no_bytes_break_anything test_no_json_breaks_anything test_compressed_bodies_are_refused_unread

endpoint: a request's id is taken only where it is plain; logs and answers tell no key, text or inner message
    unit/serve/test_observe.py
        test_another_gets_an_id_of_ours test_nothing_breaks_out_of_its_line
        test_no_text_no_address_and_no_key_is_ever_in_the_log test_an_exception_is_its_type_and_place
    unit/serve/test_api_errors.py
        test_what_fails_inside_is_not_told
    unit/client/test_calls.py
        test_the_key_is_sent_and_never_shown
    unit/serve/test_keys.py
        test_a_key_written_into_the_file_by_mistake_is_not_quoted
    security/test_endpoint.py
        test_a_key_is_in_no_log_of_serve

MLflow: the server asks for an account, answers to its own names only, and other sites change nothing
    security/test_mlflow.py
        test_an_address_asks_for_an_account test_who_has_an_account_gets_in test_it_answers_to_its_own_names_only
        test_other_sites_change_nothing test_it_listens_where_it_was_told
    manifests/test_docker_mlflow.py
        test_the_server_asks_for_accounts_and_knows_its_hosts test_options_that_would_open_it_are_refused
    integration/test_stack.py
        test_nobody_gets_in_without_a_password_or_under_another_name
    manifests/test_compose_services.py
        test_the_gate_passes_on_who_calls_this_machine_and_refuses_other_names

files: a pickle is never loaded: as a bundle or its weights, a tagger, a checkpoint, a study, a table, or by YAML
    security/test_pickles.py
        test_it_sings_for_who_loads_it test_as_the_weights_of_a_bundle test_as_the_weights_of_a_bundle_to_be_served
        test_as_a_bundle test_as_the_weights_of_a_role_tagger test_as_a_checkpoint test_as_the_journal_of_a_sweep
        test_a_configuration_makes_plain_values_only test_an_override_makes_plain_values_only
    unit/registry/test_admission.py
        test_a_pickle_is_refused_and_never_run
    security/test_tables.py
        test_it_sings_for_who_reads_the_rows test_a_command_does_not_read_them test_a_worker_does_not_read_them
        test_a_worker_of_training_does_not_read_them test_the_description_of_a_tensor_is_no_pickle
        test_plain_nested_values_of_others_are_read
    unit/test_house.py
        test_nothing_unpickles_or_calls_a_shell
    security/test_sources.py
        test_the_search_finds_it test_the_sources_have_nothing_of_it test_what_is_allowed_is_there

files: an AllenNLP archive, which is pickles, runs only if the user gave it, pinned it or said so
    security/test_pickles.py
        test_an_archive_that_a_bundle_names_is_not_touched
        test_an_archive_that_a_bundle_names_is_run_where_that_is_said
    unit/serve/test_generator.py
        test_an_archive_that_a_bundle_names_is_not_run_unless_allowed
    unit/facts/test_allennlp_archives.py
        test_a_remote_archive_without_sha256_is_not_even_asked_for test_s3_needs_trust_too
        test_another_file_than_the_pinned_one_is_deleted
    unit/facts/test_allennlp_worker.py
        test_another_archive_is_refused_before_it_is_loaded
    unit/facts/test_allennlp_environment.py
        test_the_worker_gets_no_credentials

files: a flipped byte is found: in each file of a bundle, here and in a store, a promoted model, a checkpoint, a corpus
    unit/test_bundle.py
        test_one_flipped_byte_in_any_file_is_refused test_any_change_of_any_byte_is_refused
    unit/cli_write/test_refused.py
        test_a_bundle_with_one_flipped_byte_is_exit_code_3
    integration/test_storage_bundles.py
        test_a_bundle_that_was_changed_is_refused test_a_damaged_copy_is_fetched_again
    unit/registry/test_promotion.py
        test_another_bundle_at_the_same_place_is_refused test_a_bundle_that_was_damaged_is_not_gone_back_to
    integration/test_registry.py
        test_what_lies_in_the_store_counts_and_not_the_copy_of_an_earlier_day
    integration/test_storage_checkpoints.py
        test_a_damaged_checkpoint_is_named_and_an_older_one_taken
    unit/corpora/test_prepared.py
        test_a_changed_record_is_noticed

files: no name leads out of its folder: keys, manifests, marks, members of archives, ids, names of runs and models
    unit/storage/test_folder.py
        test_names_that_lead_elsewhere_are_refused_by_all_calls test_a_write_through_a_link_that_leads_out_is_refused
    security/test_paths.py
        test_a_manifest_that_lists_files_elsewhere test_a_stored_bundle_with_keys_that_lead_elsewhere
        test_a_mark_that_names_a_checkpoint_elsewhere test_an_archive_whose_members_lead_elsewhere
        test_ids_of_records_are_never_names_of_files test_names_of_runs_sweeps_and_models
        test_a_registered_model_whose_place_was_changed
    unit/training/test_job.py
        test_a_name_that_is_no_file_name_is_refused
    unit/tracking/test_tracker.py
        test_a_run_name_that_is_no_file_name_is_refused

files: small files that ask for much are refused: deep JSON and YAML, entities of XML, sizes without weights
    security/test_bombs.py
        test_deep_json_in_a_bundle test_deep_json_in_the_manifest_of_a_stored_bundle test_deep_json_in_a_role_tagger
        test_deep_json_in_a_mark_and_in_a_checkpoint test_deep_yaml test_sizes_that_the_weights_do_not_have
        test_a_header_of_weights_that_is_longer_than_its_file
    unit/corpora/test_json_lines.py
        test_a_bad_line_is_a_reject_and_the_rest_is_read
    unit/corpora/test_webnlg.py
        test_a_file_that_is_broken_as_a_whole_names_file_and_line

files: texts cannot break out of a report's page
    unit/evaluation/test_report_page.py
        test_text_cannot_break_out_of_the_page

secrets: they are in no file, log, message or traceback that commands and runs leave, whatever goes wrong
    security/test_credentials.py
        test_the_search_finds_them test_a_run_and_what_is_made_of_it test_a_server_that_is_down
        test_what_a_program_logs test_a_store_that_refuses test_a_database_of_a_sweep_that_cannot_be_used
        test_an_endpoint_that_does_not_answer test_an_unexpected_error_shows_neither_values_nor_passwords
    unit/tracking/test_origin.py
        test_command_lines test_texts test_settings_and_addresses
    unit/facts/test_config.py
        test_secrets_in_an_address_are_kept_out_of_configurations
    unit/doctor/test_command.py
        test_no_secret_is_printed test_secrets_are_hidden_whatever_quotes_them

secrets: they are in no metadata of Ray's jobs, no log of Ray and no argument of a process
    security/test_ray.py
        test_secrets_of_the_environment_are_in_no_metadata_log_or_argument
    unit/tracking/test_cli_runs.py
        test_the_pages_of_a_database_get_its_password_but_not_by_the_command
    unit/stack/test_parts.py
        test_no_password_is_in_a_command_line_nor_in_a_file_that_others_read
    integration/test_stack.py
        test_no_password_is_in_a_command_line_or_a_log
    security/test_mlflow.py
        test_secrets_are_in_files_of_its_user_alone

secrets: files with secrets are made with mode 0600; one that others may write, or read, is refused
    unit/serve/test_keys.py
        test_a_new_file_is_the_owners_alone_whatever_the_umask test_a_file_that_others_may_write_is_refused
    unit/stack/test_state.py
        test_passwords_are_made_once_differ_and_are_read_by_their_owner_alone
        test_passwords_that_others_may_read_or_that_are_none_are_refused
    manifests/test_compose_setup.py
        test_only_the_owner_reads_secrets

secrets: manifests, Compose and images hold none
    manifests/test_kuberay_policy.py
        test_no_secret_is_in_a_manifest
    manifests/test_compose.py
        test_no_secret_stands_in_its_environment_or_command test_secrets_are_files_outside_of_the_repository
    manifests/test_docker.py
        test_no_secret_is_an_argument_or_variable
    manifests/test_docker_mlflow.py
        test_secrets_are_in_files_of_one_user_and_nowhere_else

cluster: only what is needed passes between pods; the endpoint alone is open to the outside, with TLS
    manifests/test_kuberay_network.py
        test_what_is_needed_passes_and_nothing_else test_everything_is_denied_unless_allowed
    manifests/test_kuberay_policy.py
        test_nothing_is_open_to_the_outside_but_the_endpoint_with_tls
    manifests/test_compose.py
        test_only_the_gate_is_published_and_only_on_loopback

cluster: pods and services are not root, cannot become it, and have read-only roots
    manifests/test_kuberay_policy.py
        test_every_pod_obeys_the_rules test_a_pod_that_breaks_a_rule_is_named
    manifests/test_compose.py
        test_it_is_not_root_and_cannot_become_it test_its_root_file_system_is_read_only
    manifests/test_docker.py
        test_it_runs_as_a_user_of_its_own
"""


class Promise(NamedTuple):
    """What holds, and what shows it."""

    about: str
    holds: str
    tests: tuple[str, ...]
    """``file below tests::name``."""


def promises(text: str = LIST) -> list[Promise]:
    """The promises of a list, in its order."""
    found = []
    for block in text.strip().split("\n\n"):
        first, *lines = block.splitlines()
        about, _, holds = first.partition(": ")
        tests, file = [], ""
        for line in lines:
            if line.endswith(".py"):
                file = line.strip()
            else:
                tests += [f"{file}::{name}" for name in line.split()]
        found.append(Promise(about, holds, tuple(tests)))
    return found


if __name__ == "__main__":
    print(LIST.strip())
