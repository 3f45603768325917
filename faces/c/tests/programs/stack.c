/* Calls from a thread with little stack. The third argument is the stack in KiB. */
#include "check.h"
#include <limits.h>
#include <pthread.h>

static const char *directory_;

static void told(void *context, evendb_status status, evendb_value *value, evendb_error *error) {
    CHECK(status == EVENDB_OK && error == NULL);
    evendb_value_free(value);
    (void)context;
}

static void *works(void *unused) {
    char *path = below(directory_, "db");
    evendb_db *db = opened(path);
    evendb_keyspace *keyspace = default_of(db);
    evendb_merge_operator *append;
    evendb_keyspace_options *options;
    evendb_keyspace *texts;
    evendb_cursor *cursor;
    evendb_batch *batch;
    evendb_transaction *transaction;
    evendb_value *value;
    evendb_stats *stats;
    evendb_ingest *ingest;
    const void *record = "";
    char *bytes = calloc(1, 1000);
    OK(evendb_merge_operator_ready("evendb.append", &append, E));
    OK(evendb_keyspace_options_create(&options, E));
    OK(evendb_keyspace_options_set(options, "compression", "lz4", E));
    OK(evendb_keyspace_options_merge_operator(options, append, E));
    OK(evendb_keyspace_open(db, "texts", options, &texts, E));
    for (int number = 0; number < 5000; number++) {
        char key[16];
        sprintf(key, "%d", number * 7919 % 5000);
        OK(evendb_put(keyspace, T(key), bytes, 1000, E));
        OK(evendb_merge(texts, T(key), T("text"), E));
    }
    OK(evendb_flush(db, E));
    OK(evendb_settle_debt(db, E));
    OK(evendb_compact(db, NULL, E));
    OK(evendb_cursor_open(texts, EVERYTHING, 0, &cursor, E));
    while (record != NULL) {
        OK(evendb_cursor_next(cursor, &record, NULL, NULL, NULL, E));
    }
    evendb_cursor_free(cursor);
    OK(evendb_get_async(keyspace, T("7"), told, NULL, NULL, E));
    OK(evendb_get_async(texts, T("7"), told, NULL, NULL, E));
    OK(evendb_persist_async(db, told, NULL, NULL, E));
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, texts, T("a"), T("1"), E));
    OK(evendb_batch_delete_range(batch, texts, EVENDB_RANGE_PREFIX, T("1"), NULL, 0, E));
    OK(evendb_batch_durability(batch, EVENDB_DURABILITY_SYNC, E));
    OK(evendb_batch_commit(batch, E));
    evendb_batch_free(batch);
    OK(evendb_transaction_begin(db, &transaction, E));
    OK(evendb_transaction_get(transaction, texts, T("a"), &value, E));
    CHECK(value_is(value, "1"));
    OK(evendb_transaction_put(transaction, texts, T("a"), T("2"), E));
    OK(evendb_transaction_commit(transaction, E));
    evendb_transaction_free(transaction);
    OK(evendb_ingest_begin(keyspace, &ingest, E));
    OK(evendb_ingest_put(ingest, T("x"), T("y"), E));
    OK(evendb_ingest_finish(ingest, NULL, E));
    evendb_ingest_free(ingest);
    OK(evendb_stats_take(db, &stats, E));
    evendb_stats_free(stats);
    OK(evendb_export(texts, below(directory_, "exported"), NULL, E));
    OK(evendb_backup(db, below(directory_, "backups"), EVENDB_CHECK_NEW, UINT64_MAX, NULL, E));
    OK(evendb_backup_restore(below(directory_, "backups"), 0, below(directory_, "restored"), NULL, E));
    OK(evendb_close(db, E));
    evendb_keyspace_free(texts);
    evendb_keyspace_free(keyspace);
    evendb_free(db);
    db = opened(path);
    OK(evendb_close(db, E));
    evendb_free(db);
    return unused;
}

int main(int count, char **arguments) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(count == 4);
    directory_ = arguments[1];
    layout_ = arguments[2];
    size_t bytes = (size_t)atoi(arguments[3]) << 10;
    CHECK(bytes >= (size_t)PTHREAD_STACK_MIN);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, bytes) == 0);
    CHECK(pthread_create(&thread, &attributes, works, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return ended();
}
