/* Watches of ranges and prefixes: what they give and pass over, waits, positions, a close, a drop. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static evendb_db *db;
static evendb_keyspace *keyspace;

static evendb_change *next(evendb_changes *watch, uint64_t millis) {
    evendb_change *change;
    OK(evendb_changes_next(watch, millis, &change, E));
    return change;
}

/* Whether the next change is one write, of this key and value; NULL for no change. */
static int next_is(evendb_changes *watch, uint64_t millis, const char *key, const char *value) {
    evendb_change *change = next(watch, millis);
    const void *of_key, *of_value;
    size_t key_size, value_size;
    int is;
    if (key == NULL || change == NULL) {
        is = key == NULL && change == NULL;
    } else {
        OK(evendb_change_write(change, 0, NULL, &of_key, &key_size, &of_value, &value_size, NULL, E));
        is = evendb_change_count(change) == 1 && same(of_key, key_size, key) &&
             same(of_value, value_size, value);
    }
    evendb_change_free(change);
    return is;
}

static void *writes_later(void *unused) {
    usleep(20000);
    put(keyspace, "zoo", "passed over");
    put(keyspace, "job/late", "1");
    return unused;
}

/* Closes when another thread waits in the watch, which it sees by being refused. */
static void *closes_later(void *waiting) {
    evendb_status status;
    do {
        uint64_t lag;
        status = evendb_changes_lag(waiting, &lag, NULL);
    } while (status == EVENDB_OK);
    CHECK(status == EVENDB_BUSY);
    OK(evendb_close(db, E));
    return NULL;
}

static void refused(void) {
    evendb_changes *watch;
    IS(evendb_watch_range(NULL, EVERYTHING, NULL, &watch, E), EVENDB_INVALID_ARGUMENT);
    CHECK(watch == NULL);
    IS(evendb_watch_prefix(NULL, T("a"), NULL, &watch, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_watch_prefix(keyspace, NULL, 1, NULL, &watch, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_watch_prefix(keyspace, T("a"), NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_watch_range(keyspace, 7, NULL, 0, NULL, 0, NULL, &watch, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_watch_range(keyspace, EVENDB_RANGE_ALL, T("a"), NULL, 0, NULL, &watch, E),
       EVENDB_INVALID_ARGUMENT);
    IS(evendb_changes_lag(NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
}

static void ranges(void) {
    evendb_changes *watch, *prefix;
    evendb_batch *batch;
    evendb_change *change;
    const void *key, *value;
    size_t key_size, value_size;
    int32_t kind;
    uint64_t lag;
    put(keyspace, "b", "before");
    OK(evendb_watch_range(keyspace, EVENDB_RANGE_BETWEEN, T("b"), T("d"), NULL, &watch, E));
    OK(evendb_watch_prefix(keyspace, T("job/"), NULL, &prefix, E));
    CHECK(next_is(watch, 0, NULL, NULL) && next_is(watch, 1, NULL, NULL));
    put(keyspace, "a", "below");
    put(keyspace, "d", "above");
    put(keyspace, "c", "within");
    OK(evendb_changes_lag(watch, &lag, E));
    CHECK(lag > 0);
    CHECK(next_is(watch, 0, "c", "within") && next_is(watch, 0, NULL, NULL));
    OK(evendb_changes_lag(watch, &lag, E));
    CHECK(lag == 0);
    /* Of a batch what touches the range; a removed range is cut to it. */
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("job/1"), T("x"), E));
    OK(evendb_batch_delete_range(batch, keyspace, EVENDB_RANGE_BETWEEN, T("a"), T("c"), E));
    OK(evendb_batch_commit(batch, E));
    evendb_batch_free(batch);
    change = next(watch, 0);
    CHECK(evendb_change_count(change) == 1);
    OK(evendb_change_write(change, 0, &kind, &key, &key_size, &value, &value_size, NULL, E));
    CHECK(kind == EVENDB_CHANGE_DELETE_RANGE && same(key, key_size, "b") && same(value, value_size, "c"));
    evendb_change_free(change);
    CHECK(next_is(prefix, 0, "job/1", "x") && next_is(prefix, 0, NULL, NULL));
    evendb_changes_free(watch);
    evendb_changes_free(prefix);
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    char *path = below(directory, "db");
    evendb_keyspace *dropped;
    evendb_changes *watch, *again;
    evendb_change *change;
    evendb_position *position;
    evendb_value *bytes;
    evendb_status status;
    pthread_t thread;

    db = opened(path);
    keyspace = default_of(db);
    refused();
    ranges();

    /* A wait ends by a write to the range, and not by one beside it. */
    OK(evendb_watch_prefix(keyspace, T("job/"), NULL, &watch, E));
    CHECK(pthread_create(&thread, NULL, writes_later, NULL) == 0);
    CHECK(next_is(watch, 30000, "job/late", "1"));
    CHECK(pthread_join(thread, NULL) == 0);

    /* A position goes over a reopening: then comes what was written since. */
    OK(evendb_changes_position(watch, &position, E));
    OK(evendb_position_to_bytes(position, &bytes, E));
    evendb_position_free(position);
    put(keyspace, "zoo", "passed over");
    put(keyspace, "job/last", "2");
    OK(evendb_close(db, E));
    IS(evendb_changes_next(watch, 0, &change, E), EVENDB_CLOSED);
    IS(evendb_watch_prefix(keyspace, T("job/"), NULL, &again, E), EVENDB_CLOSED);
    evendb_changes_free(watch);
    evendb_keyspace_free(keyspace);
    evendb_free(db);
    db = opened(path);
    keyspace = default_of(db);
    OK(evendb_position_from_bytes(evendb_value_data(bytes), evendb_value_size(bytes), &position, E));
    evendb_value_free(bytes);
    OK(evendb_watch_range(keyspace, EVENDB_RANGE_PREFIX, T("job/"), NULL, 0, position, &watch, E));
    CHECK(next_is(watch, 0, "job/last", "2") && next_is(watch, 0, NULL, NULL));
    evendb_changes_free(watch);
    OK(evendb_watch_prefix(keyspace, T("job/"), position, &watch, E));
    CHECK(next_is(watch, 0, "job/last", "2") && next_is(watch, 0, NULL, NULL));
    evendb_position_free(position);

    /* The end of a keyspace is the end of its watches, and of no other. */
    OK(evendb_keyspace_open(db, "dropped", NULL, &dropped, E));
    OK(evendb_watch_range(dropped, EVERYTHING, NULL, &again, E));
    OK(evendb_keyspace_drop(db, "dropped", E));
    IS(evendb_changes_next(again, UINT64_MAX, &change, E), EVENDB_KEYSPACE_DROPPED);
    evendb_changes_free(again);
    evendb_keyspace_free(dropped);
    put(keyspace, "job/more", "3");
    CHECK(next_is(watch, 0, "job/more", "3"));

    /* A watch keeps its database open; a close ends its wait. */
    evendb_keyspace_free(keyspace);
    CHECK(pthread_create(&thread, NULL, closes_later, watch) == 0);
    do {
        status = evendb_changes_next(watch, UINT64_MAX, &change, NULL);
    } while (status == EVENDB_BUSY);
    CHECK(status == EVENDB_CLOSED && change == NULL);
    CHECK(pthread_join(thread, NULL) == 0);
    evendb_free(db);
    evendb_changes_free(watch);
    return ended();
}
