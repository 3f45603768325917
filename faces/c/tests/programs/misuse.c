/* Pointers and lengths that make no sense, NULL handles, NULL places: each is told, nothing is read. */
#include "check.h"

#define BAD EVENDB_INVALID_ARGUMENT
/* One parameter of bytes: the empty bytes in both forms, and what is refused. */
#define BYTES(CALL, empty)                                                                 \
    do {                                                                                   \
        IS(CALL(NULL, 0), empty);                                                          \
        IS(CALL(here, 0), empty);                                                          \
        IS(CALL(NULL, 1), BAD);                                                            \
        IS(CALL(NULL, SIZE_MAX), BAD);                                                     \
        IS(CALL(here, SIZE_MAX), BAD);                                                     \
        IS(CALL(here, (size_t)PTRDIFF_MAX + 1), BAD);                                      \
    } while (0)

static char here[1];
static evendb_db *db;
static evendb_keyspace *keyspace;
static evendb_value *value, *values[2];
static evendb_cursor *cursor;
static evendb_transaction *transaction;
static evendb_snapshot *snapshot;
static evendb_batch *batch;
static evendb_ingest *ingest;
static evendb_position *position;
static evendb_changes *changes;
static evendb_change *change;
static evendb_summary *summary;
static evendb_names *names;
static evendb_stats *stats;
static evendb_trace *trace;
static evendb_export_writer *writer;
static evendb_backup_list *list;
static evendb_options *options;
static evendb_keyspace_options *keyspace_options;
static evendb_merge_operator *merge_operator;
static int32_t number;
static uint32_t id;
static uint64_t count, bytes;
static size_t size, records;
static const void *data;
static const char *text;

#define GET(p, n) evendb_get(keyspace, p, n, &value, E)
#define GET_INTO(p, n) evendb_get_into(keyspace, p, n, here, 1, &size, &number, E)
#define BUFFER(p, n) evendb_get_into(keyspace, T("none"), p, n, &size, &number, E)
#define CONTAINS(p, n) evendb_contains(keyspace, p, n, &number, E)
#define PUT(p, n) evendb_put(keyspace, p, n, NULL, 0, E)
#define PUT_VALUE(p, n) evendb_put(keyspace, T("v"), p, n, E)
#define TTL(p, n) evendb_put_with_ttl(keyspace, p, n, p, n, 0, E)
#define AT(p, n) evendb_put_expiring_at(keyspace, p, n, p, n, 1, E)
#define DELETE(p, n) evendb_delete(keyspace, p, n, E)
#define SINGLE(p, n) evendb_single_delete(keyspace, p, n, E)
#define MERGE(p, n) evendb_merge(keyspace, T("k"), p, n, E)
#define LOW(p, n) evendb_delete_range(keyspace, EVENDB_RANGE_BETWEEN, p, n, NULL, 0, E)
#define HIGH(p, n) evendb_delete_range(keyspace, EVENDB_RANGE_BETWEEN, T("x"), p, n, E)
#define EXPECTED(p, n)                                                                     \
    evendb_compare_and_swap(keyspace, T("v"), 1, p, n, 1, T(""), &number, NULL, E)
#define NEW(p, n)                                                                          \
    evendb_compare_and_swap(keyspace, T("v"), 1, T(""), 1, p, n, &number, NULL, E)
#define PROPERTY(p, n) evendb_keyspace_set_property(keyspace, "p", p, n, E)
#define SIZE(p, n)                                                                         \
    evendb_approximate_size(keyspace, EVENDB_RANGE_FROM, p, n, NULL, 0, &count, &bytes, E)
#define SEEK(p, n) evendb_cursor_seek(cursor, p, n, E)
#define SEEK_BACK(p, n) evendb_cursor_seek_back(cursor, p, n, E)
#define BATCH_PUT(p, n) evendb_batch_put(batch, keyspace, p, n, p, n, E)
#define BATCH_DELETE(p, n) evendb_batch_delete(batch, keyspace, p, n, E)
#define SNAPSHOT_GET(p, n) evendb_snapshot_get(snapshot, keyspace, p, n, &value, E)
#define TRANSACTION_GET(p, n) evendb_transaction_get(transaction, keyspace, p, n, &value, E)
#define TRANSACTION_PUT(p, n) evendb_transaction_put(transaction, keyspace, T("t"), p, n, E)
#define INGEST(p, n) evendb_ingest_put(ingest, T("i"), p, n, E)

/* The call begins if the status is EVENDB_OK, and only then the callback comes. */
static void count_calls(void *context, evendb_status status, evendb_value *of, evendb_error *error) {
    CHECK(status == EVENDB_OK && of == NULL && error == NULL);
    ++*(int *)context;
}

static int calls;
#define GET_ASYNC(p, n) evendb_get_async(keyspace, p, n, count_calls, &calls, NULL, E)
#define GET_PART(p, n) evendb_get_part(keyspace, p, n, 0, 1, &value, E)
#define WATCH(p, n) (evendb_changes_free(changes), evendb_watch_prefix(keyspace, p, n, NULL, &changes, E))
#define LENGTH(p, n) evendb_approximate_len(keyspace, EVENDB_RANGE_FROM, p, n, NULL, 0, &count, E)

static void of_bytes(void) {
    BYTES(GET_ASYNC, EVENDB_OK);
    CHECK(calls == 2);
    BYTES(GET_PART, EVENDB_OK);
    BYTES(WATCH, EVENDB_OK);
    BYTES(LENGTH, EVENDB_OK);
    BYTES(GET, EVENDB_OK);
    BYTES(PUT, EVENDB_OK);
    BYTES(PUT_VALUE, EVENDB_OK);
    BYTES(GET_INTO, EVENDB_OK);
    BYTES(BUFFER, EVENDB_OK);
    BYTES(CONTAINS, EVENDB_OK);
    BYTES(DELETE, EVENDB_OK);
    BYTES(SINGLE, EVENDB_OK);
    BYTES(TTL, EVENDB_OK);
    BYTES(AT, EVENDB_OK);
    BYTES(LOW, EVENDB_OK);
    BYTES(HIGH, EVENDB_OK);
    BYTES(EXPECTED, EVENDB_OK);
    BYTES(NEW, EVENDB_OK);
    BYTES(PROPERTY, EVENDB_OK);
    BYTES(SIZE, EVENDB_OK);
    BYTES(SEEK, EVENDB_OK);
    BYTES(SEEK_BACK, EVENDB_OK);
    BYTES(BATCH_PUT, EVENDB_OK);
    BYTES(BATCH_DELETE, EVENDB_OK);
    BYTES(SNAPSHOT_GET, EVENDB_OK);
    BYTES(TRANSACTION_GET, EVENDB_OK);
    BYTES(TRANSACTION_PUT, EVENDB_OK);
    /* The keyspace has no operator, which is told after the bytes were looked at. */
    BYTES(MERGE, BAD);
    IS(INGEST(NULL, 1), BAD);
    IS(INGEST(here, SIZE_MAX), BAD);
    OK(INGEST(NULL, 0));
    IS(evendb_position_from_bytes(NULL, 1, &position, E), BAD);
    IS(evendb_position_from_bytes(NULL, 0, &position, E), BAD);
    IS(evendb_cursor_fill(cursor, NULL, 1, &size, NULL, E), BAD);
    IS(evendb_cursor_fill(cursor, here, SIZE_MAX, &size, NULL, E), BAD);
    /* A value that is left after (NULL, 0) and (p, 0) is not NULL. */
    OK(evendb_get(keyspace, T("v"), &value, E));
    CHECK(evendb_value_data(value) != NULL && evendb_value_size(value) == 0);
    evendb_value_free(value);
}

static void of_arrays(void) {
    const void *keys[] = {here, NULL};
    size_t sizes[] = {0, 0}, wrong[] = {0, 1};
    OK(evendb_multi_get(keyspace, 2, keys, sizes, values, E));
    evendb_value_free(values[0]);
    evendb_value_free(values[1]);
    IS(evendb_multi_get(keyspace, 2, keys, wrong, values, E), BAD);
    CHECK(values[0] == NULL && values[1] == NULL);
    size_t counts[] = {SIZE_MAX, SIZE_MAX / sizeof(void *) + 2, PTRDIFF_MAX / sizeof(void *) + 1};
    for (size_t at = 0; at < 3; at++) {
        IS(evendb_multi_get(keyspace, counts[at], keys, sizes, values, E), BAD);
        IS(evendb_snapshot_multi_get(snapshot, keyspace, counts[at], keys, sizes, values, E), BAD);
        IS(evendb_transaction_multi_get(transaction, keyspace, counts[at], keys, sizes, values, E), BAD);
    }
    IS(evendb_multi_get(keyspace, 2, NULL, sizes, values, E), BAD);
    IS(evendb_multi_get(keyspace, 2, keys, NULL, values, E), BAD);
    IS(evendb_multi_get(keyspace, 2, keys, sizes, NULL, E), BAD);
}

/* Every function that can fail, without its handle. */
static void of_handles(void) {
    void *none = NULL;
    IS(evendb_options_set(NULL, "workers", "1", E), BAD);
    IS(evendb_close(NULL, E), BAD);
    IS(evendb_persist(NULL, E), BAD);
    IS(evendb_flush(NULL, E), BAD);
    IS(evendb_settle_debt(NULL, E), BAD);
    IS(evendb_compact(NULL, &summary, E), BAD);
    IS(evendb_keyspace_options_set(NULL, "ttl", "1s", E), BAD);
    IS(evendb_default_keyspace(NULL, &keyspace, E), BAD);
    CHECK(keyspace == NULL);
    OK(evendb_default_keyspace(db, &keyspace, E));
    IS(evendb_keyspace_open(NULL, "k", NULL, (evendb_keyspace **)&none, E), BAD);
    IS(evendb_keyspace_exists(NULL, "k", &number, E), BAD);
    IS(evendb_keyspace_drop(NULL, "k", E), BAD);
    IS(evendb_keyspace_names(NULL, &names, E), BAD);
    IS(evendb_keyspace_name(NULL, &value, E), BAD);
    IS(evendb_keyspace_id(NULL, &id, E), BAD);
    IS(evendb_keyspace_option(NULL, "ttl", &value, E), BAD);
    IS(evendb_keyspace_set_options(NULL, NULL, E), BAD);
    IS(evendb_keyspace_property(NULL, "p", &value, E), BAD);
    IS(evendb_keyspace_set_property(NULL, "p", T("v"), E), BAD);
    IS(evendb_keyspace_remove_property(NULL, "p", E), BAD);
    IS(evendb_keyspace_compact(NULL, EVERYTHING, NULL, E), BAD);
    IS(evendb_keyspace_set_compaction_filter(NULL, NULL, NULL, NULL, E), BAD);
    IS(evendb_keyspace_options_merge_operator(NULL, NULL, E), BAD);
    IS(evendb_get(NULL, T("k"), &value, E), BAD);
    IS(evendb_get_into(NULL, T("k"), here, 1, &size, &number, E), BAD);
    IS(evendb_contains(NULL, T("k"), &number, E), BAD);
    IS(evendb_multi_get(NULL, 0, NULL, NULL, NULL, E), BAD);
    IS(evendb_multi_get_across(NULL, 0, NULL, NULL, NULL, NULL, E), BAD);
    IS(evendb_approximate_size(NULL, EVERYTHING, &count, &bytes, E), BAD);
    IS(evendb_put(NULL, T("k"), T("v"), E), BAD);
    IS(evendb_put_with_ttl(NULL, T("k"), T("v"), 1, E), BAD);
    IS(evendb_put_expiring_at(NULL, T("k"), T("v"), 1, E), BAD);
    IS(evendb_merge(NULL, T("k"), T("v"), E), BAD);
    IS(evendb_delete(NULL, T("k"), E), BAD);
    IS(evendb_single_delete(NULL, T("k"), E), BAD);
    IS(evendb_delete_range(NULL, EVERYTHING, E), BAD);
    IS(evendb_compare_and_swap(NULL, T("k"), 0, NULL, 0, 0, NULL, 0, &number, NULL, E), BAD);
    IS(evendb_pop_first(NULL, EVERYTHING, NULL, &value, E), BAD);
    IS(evendb_pop_last(NULL, EVERYTHING, NULL, &value, E), BAD);
    IS(evendb_cursor_open(NULL, EVERYTHING, 0, (evendb_cursor **)&none, E), BAD);
    IS(evendb_cursor_limit(NULL, 1, E), BAD);
    IS(evendb_cursor_next(NULL, &data, NULL, NULL, NULL, E), BAD);
    IS(evendb_cursor_next_back(NULL, &data, NULL, NULL, NULL, E), BAD);
    IS(evendb_cursor_seek(NULL, T("k"), E), BAD);
    IS(evendb_cursor_seek_back(NULL, T("k"), E), BAD);
    IS(evendb_cursor_fill(NULL, here, 1, &size, &records, E), BAD);
    IS(evendb_cursor_fill_back(NULL, here, 1, &size, &records, E), BAD);
    IS(evendb_batch_create(NULL, (evendb_batch **)&none, E), BAD);
    IS(evendb_batch_put(NULL, keyspace, T("k"), T("v"), E), BAD);
    IS(evendb_batch_put_with_ttl(NULL, keyspace, T("k"), T("v"), 1, E), BAD);
    IS(evendb_batch_put_expiring_at(NULL, keyspace, T("k"), T("v"), 1, E), BAD);
    IS(evendb_batch_merge(NULL, keyspace, T("k"), T("v"), E), BAD);
    IS(evendb_batch_delete(NULL, keyspace, T("k"), E), BAD);
    IS(evendb_batch_single_delete(NULL, keyspace, T("k"), E), BAD);
    IS(evendb_batch_delete_range(NULL, keyspace, EVERYTHING, E), BAD);
    IS(evendb_batch_durability(NULL, 1, E), BAD);
    IS(evendb_batch_size(NULL, &size, &bytes, E), BAD);
    IS(evendb_batch_clear(NULL, E), BAD);
    IS(evendb_batch_commit(NULL, E), BAD);
    IS(evendb_snapshot_create(NULL, (evendb_snapshot **)&none, E), BAD);
    IS(evendb_snapshot_get(NULL, keyspace, T("k"), &value, E), BAD);
    IS(evendb_snapshot_contains(NULL, keyspace, T("k"), &number, E), BAD);
    IS(evendb_snapshot_multi_get(NULL, keyspace, 0, NULL, NULL, NULL, E), BAD);
    IS(evendb_snapshot_cursor(NULL, keyspace, EVERYTHING, 0, (evendb_cursor **)&none, E), BAD);
    IS(evendb_snapshot_position(NULL, &position, E), BAD);
    IS(evendb_transaction_begin(NULL, (evendb_transaction **)&none, E), BAD);
    IS(evendb_transaction_get(NULL, keyspace, T("k"), &value, E), BAD);
    IS(evendb_transaction_get_for_update(NULL, keyspace, T("k"), &value, E), BAD);
    IS(evendb_transaction_contains(NULL, keyspace, T("k"), &number, E), BAD);
    IS(evendb_transaction_multi_get(NULL, keyspace, 0, NULL, NULL, NULL, E), BAD);
    IS(evendb_transaction_cursor(NULL, keyspace, EVERYTHING, 0, (evendb_cursor **)&none, E), BAD);
    IS(evendb_transaction_lock_timeout(NULL, 1, E), BAD);
    IS(evendb_transaction_put(NULL, keyspace, T("k"), T("v"), E), BAD);
    IS(evendb_transaction_put_with_ttl(NULL, keyspace, T("k"), T("v"), 1, E), BAD);
    IS(evendb_transaction_put_expiring_at(NULL, keyspace, T("k"), T("v"), 1, E), BAD);
    IS(evendb_transaction_merge(NULL, keyspace, T("k"), T("v"), E), BAD);
    IS(evendb_transaction_delete(NULL, keyspace, T("k"), E), BAD);
    IS(evendb_transaction_single_delete(NULL, keyspace, T("k"), E), BAD);
    IS(evendb_transaction_delete_range(NULL, keyspace, EVERYTHING, E), BAD);
    IS(evendb_transaction_savepoint(NULL, &count, E), BAD);
    IS(evendb_transaction_rollback_to(NULL, 1, E), BAD);
    IS(evendb_transaction_size(NULL, &size, E), BAD);
    IS(evendb_transaction_durability(NULL, 1, E), BAD);
    IS(evendb_transaction_commit(NULL, E), BAD);
    IS(evendb_transaction_rollback(NULL, E), BAD);
    IS(evendb_position_now(NULL, &position, E), BAD);
    IS(evendb_position_oldest(NULL, &position, E), BAD);
    IS(evendb_position_to_bytes(NULL, &value, E), BAD);
    IS(evendb_changes_open(db, NULL, &changes, E), BAD);
    IS(evendb_changes_open(NULL, NULL, &changes, E), BAD);
    IS(evendb_changes_next(NULL, 0, &change, E), BAD);
    IS(evendb_changes_position(NULL, &position, E), BAD);
    IS(evendb_change_position(NULL, &position, E), BAD);
    IS(evendb_change_keyspace(NULL, 0, &text, &id, E), BAD);
    IS(evendb_change_write(NULL, 0, &number, &data, NULL, NULL, NULL, NULL, E), BAD);
    IS(evendb_change_operand(NULL, 0, 0, &data, &size, E), BAD);
    IS(evendb_ingest_begin(NULL, (evendb_ingest **)&none, E), BAD);
    IS(evendb_ingest_put(NULL, T("k"), T("v"), E), BAD);
    IS(evendb_ingest_put_expiring_at(NULL, T("k"), T("v"), 1, E), BAD);
    IS(evendb_ingest_finish(NULL, NULL, E), BAD);
    IS(evendb_export(NULL, "e", NULL, E), BAD);
    IS(evendb_import(NULL, "e", NULL, E), BAD);
    IS(evendb_export_writer_put(NULL, T("k"), T("v"), E), BAD);
    IS(evendb_export_writer_finish(NULL, NULL, E), BAD);
    IS(evendb_copy_to(NULL, "c", 0, 0, NULL, E), BAD);
    IS(evendb_backup(NULL, "b", 0, 0, NULL, E), BAD);
    IS(evendb_backup_list_at(NULL, 0, NULL, NULL, E), BAD);
    IS(evendb_stats_take(NULL, &stats, E), BAD);
    IS(evendb_stats_get(NULL, "puts", &count, E), BAD);
    IS(evendb_stats_at(NULL, 0, &text, NULL, NULL, NULL, NULL, E), BAD);
    IS(evendb_summary_get(NULL, "chunks", &count, E), BAD);
    IS(evendb_summary_at(NULL, 0, &text, &count, E), BAD);
    IS(evendb_trace_start(NULL, "t", 0, 0, 0, &trace, E), BAD);
    IS(evendb_trace_stop(NULL, NULL, E), BAD);
    CHECK(evendb_merge_result_set(NULL, here, 1) == BAD);
    CHECK(evendb_filter_result_set(NULL, here, 1) == BAD);
    evendb_merge_result_fail(NULL, "why");
}

/* NULL where the answer goes, and NULL texts and paths. */
static void of_places(void) {
    IS(evendb_options_create(NULL, E), BAD);
    IS(evendb_keyspace_options_create(NULL, E), BAD);
    IS(evendb_open("never", NULL, NULL, E), BAD);
    IS(evendb_open(NULL, NULL, &db, E), BAD);
    CHECK(db == NULL);
    IS(evendb_open("", NULL, &db, E), BAD);
    IS(evendb_destroy(NULL, E), BAD);
    IS(evendb_get(keyspace, T("k"), NULL, E), BAD);
    IS(evendb_contains(keyspace, T("k"), NULL, E), BAD);
    IS(evendb_cursor_open(keyspace, EVERYTHING, 0, NULL, E), BAD);
    IS(evendb_cursor_fill(cursor, here, 1, NULL, NULL, E), BAD);
    IS(evendb_ingest_begin(keyspace, NULL, E), BAD);
    IS(evendb_changes_open(NULL, NULL, NULL, E), BAD);
    IS(evendb_keyspace_property(keyspace, NULL, &value, E), BAD);
    IS(evendb_export(keyspace, NULL, NULL, E), BAD);
    IS(evendb_export_property(NULL, "p", &value, E), BAD);
    IS(evendb_export_writer_create(NULL, &writer, E), BAD);
    IS(evendb_backup_list_read(NULL, &list, E), BAD);
    IS(evendb_backup_verify(NULL, 0, NULL, E), BAD);
    IS(evendb_backup_restore(NULL, 0, "x", NULL, E), BAD);
    IS(evendb_backup_prune(NULL, 1, NULL, E), BAD);
    IS(evendb_merge_operator_ready(NULL, &merge_operator, E), BAD);
    IS(evendb_merge_operator_create(NULL, NULL, NULL, NULL, NULL, NULL, &merge_operator, E), BAD);
}

int main(int arguments_count, char **arguments) {
    evendb_db *open = opened(below(began(arguments_count, arguments), "db"));
    db = open;
    OK(evendb_default_keyspace(db, &keyspace, E));
    OK(evendb_cursor_open(keyspace, EVERYTHING, 0, &cursor, E));
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_snapshot_create(db, &snapshot, E));
    OK(evendb_transaction_begin(db, &transaction, E));
    OK(evendb_ingest_begin(keyspace, &ingest, E));
    of_bytes();
    of_arrays();
    evendb_keyspace_free(keyspace);
    of_handles();
    of_places();
    (void)options, (void)keyspace_options;
    evendb_cursor_free(cursor);
    evendb_batch_free(batch);
    evendb_snapshot_free(snapshot);
    evendb_transaction_free(transaction);
    evendb_ingest_free(ingest);
    evendb_keyspace_free(keyspace);
    OK(evendb_close(open, E));
    evendb_free(open);
    return ended();
}
