/* Handles that outlive the close, or the handle of their database; and several threads at once. */
#include "check.h"
#include <pthread.h>

static evendb_db *db;
static evendb_keyspace *keyspace;
static evendb_cursor *cursor, *own_cursor, *shared_cursor;
static evendb_snapshot *snapshot;
static evendb_batch *batch;
static evendb_transaction *transaction;
static evendb_changes *changes;
static evendb_position *position;
static evendb_ingest *ingest;
static evendb_value *value;
static evendb_trace *trace;

static void make_all(const char *directory, const char *name) {
    char trace_name[32];
    db = opened(below(directory, name));
    keyspace = default_of(db);
    put(keyspace, "a", "1");
    put(keyspace, "b", "2");
    OK(evendb_get(keyspace, T("a"), &value, E));
    OK(evendb_cursor_open(keyspace, EVERYTHING, 0, &cursor, E));
    OK(evendb_snapshot_create(db, &snapshot, E));
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("c"), T("3"), E));
    OK(evendb_transaction_begin(db, &transaction, E));
    OK(evendb_transaction_put(transaction, keyspace, T("c"), T("3"), E));
    OK(evendb_transaction_cursor(transaction, keyspace, EVERYTHING, 0, &own_cursor, E));
    OK(evendb_position_now(db, &position, E));
    OK(evendb_changes_open(db, position, &changes, E));
    OK(evendb_ingest_begin(keyspace, &ingest, E));
    OK(evendb_ingest_put(ingest, T("i"), T("4"), E));
    sprintf(trace_name, "%s.trace", name);
    OK(evendb_trace_start(db, below(directory, trace_name), 0, 0, 0, &trace, E));
}

static void free_all(void) {
    evendb_ingest_free(ingest);
    evendb_transaction_free(transaction);
    evendb_cursor_free(own_cursor);
    evendb_changes_free(changes);
    evendb_position_free(position);
    evendb_batch_free(batch);
    evendb_snapshot_free(snapshot);
    evendb_keyspace_free(keyspace);
    evendb_cursor_free(cursor);
    evendb_trace_free(trace);
}

static void after_close(const char *directory) {
    const void *key;
    size_t key_size;
    evendb_value *none;
    evendb_change *change;
    evendb_snapshot *new_snapshot;
    evendb_keyspace *new_keyspace;
    make_all(directory, "closed");
    OK(evendb_cursor_next(cursor, &key, &key_size, NULL, NULL, E));
    OK(evendb_close(db, E));
    /* What was lent is still there, and the value too. */
    CHECK(same(key, key_size, "a"));
    IS(evendb_get(keyspace, T("a"), &none, E), EVENDB_CLOSED);
    CHECK(none == NULL);
    IS(evendb_snapshot_get(snapshot, keyspace, T("a"), &none, E), EVENDB_CLOSED);
    IS(evendb_batch_commit(batch, E), EVENDB_CLOSED);
    IS(evendb_transaction_get(transaction, keyspace, T("a"), &none, E), EVENDB_CLOSED);
    IS(evendb_cursor_next(own_cursor, &key, &key_size, NULL, NULL, E), EVENDB_CLOSED);
    IS(evendb_transaction_commit(transaction, E), EVENDB_CLOSED);
    IS(evendb_changes_next(changes, UINT64_MAX, &change, E), EVENDB_CLOSED);
    IS(evendb_ingest_finish(ingest, NULL, E), EVENDB_CLOSED);
    IS(evendb_snapshot_create(db, &new_snapshot, E), EVENDB_CLOSED);
    IS(evendb_keyspace_open(db, "k", NULL, &new_keyspace, E), EVENDB_CLOSED);
    IS(evendb_flush(db, E), EVENDB_CLOSED);
    IS(evendb_cursor_seek(cursor, T("a"), E), EVENDB_OK);
    evendb_status status;
    do {
        status = evendb_cursor_next(cursor, &key, &key_size, NULL, NULL, NULL);
    } while (status == EVENDB_OK && key != NULL);
    CHECK(status == EVENDB_OK || status == EVENDB_CLOSED);
    evendb_free(db);
    free_all();
    CHECK(value_is(value, "1"));
}

static void without_close(const char *directory) {
    const void *key;
    size_t key_size;
    evendb_db *second;
    make_all(directory, "freed");
    evendb_free(db);
    /* Every other handle keeps the database open, and works. */
    OK(evendb_cursor_next(cursor, &key, &key_size, NULL, NULL, E));
    CHECK(same(key, key_size, "a"));
    OK(evendb_transaction_commit(transaction, E));
    CHECK(holds(keyspace, "c", "3"));
    OK(evendb_ingest_finish(ingest, NULL, E));
    IS(evendb_open(below(directory, "freed"), NULL, &second, E), EVENDB_LOCKED);
    free_all();
    CHECK(value_is(value, "1"));
    db = opened(below(directory, "freed"));
    keyspace = default_of(db);
    CHECK(holds(keyspace, "c", "3") && holds(keyspace, "i", "4"));
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
}

/* Reads, writes and scans until the database is closed. */
static void *works(void *unused) {
    for (;;) {
        evendb_value *found;
        evendb_cursor *over;
        const void *key = "";
        evendb_status status = evendb_put(keyspace, T("a"), T("1"), NULL);
        if (status == EVENDB_OK) {
            status = evendb_get(keyspace, T("a"), &found, NULL);
            evendb_value_free(found);
        }
        if (status == EVENDB_OK) {
            status = evendb_cursor_open(keyspace, EVERYTHING, 0, &over, NULL);
            while (status == EVENDB_OK && key != NULL) {
                status = evendb_cursor_next(over, &key, NULL, NULL, NULL, NULL);
            }
            evendb_cursor_free(over);
        }
        /* Two threads with one cursor: one of them is refused, and neither is harmed. */
        evendb_status of_shared = evendb_cursor_seek(shared_cursor, T("a"), NULL);
        CHECK(of_shared == EVENDB_OK || of_shared == EVENDB_BUSY);
        if (status != EVENDB_OK) {
            CHECK(status == EVENDB_CLOSED);
            return unused;
        }
    }
}

static void from_threads(const char *directory) {
    pthread_t threads[3];
    char name[16];
    for (int round = 0; round < 5; round++) {
        sprintf(name, "threads%d", round);
        db = opened(below(directory, name));
        keyspace = default_of(db);
        OK(evendb_cursor_open(keyspace, EVERYTHING, 0, &shared_cursor, E));
        for (int at = 0; at < 3; at++) {
            CHECK(pthread_create(&threads[at], NULL, works, NULL) == 0);
        }
        for (int at = 0; at < 200; at++) {
            put(keyspace, "b", "2");
        }
        OK(evendb_close(db, E));
        for (int at = 0; at < 3; at++) {
            CHECK(pthread_join(threads[at], NULL) == 0);
        }
        evendb_cursor_free(shared_cursor);
        evendb_keyspace_free(keyspace);
        evendb_free(db);
    }
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    after_close(directory);
    without_close(directory);
    from_threads(directory);
    return ended();
}
