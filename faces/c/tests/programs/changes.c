/* The change feed: positions, all kinds of writes, waits that end by time, by a write, by a close. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static evendb_db *db;
static evendb_keyspace *keyspace;

/* It folds no operands by themselves, so that a change has each of them. */
static int32_t last(void *of, const void *key, size_t key_size, const void *existing,
                    size_t existing_size, const void *const *operands, const size_t *sizes,
                    size_t count, evendb_merge_result *result) {
    (void)of, (void)key, (void)key_size, (void)existing, (void)existing_size;
    return evendb_merge_result_set(result, operands[count - 1], sizes[count - 1]);
}

static void *writes_later(void *unused) {
    usleep(20000);
    put(keyspace, "late", "1");
    return unused;
}

/* Closes when another thread waits in the feed, which it sees by being refused. */
static void *closes_later(void *waiting) {
    evendb_status status;
    do {
        evendb_position *position;
        status = evendb_changes_position(waiting, &position, NULL);
        evendb_position_free(position);
    } while (status == EVENDB_OK);
    CHECK(status == EVENDB_BUSY);
    OK(evendb_close(db, E));
    return NULL;
}

static evendb_change *next(evendb_changes *changes, uint64_t millis) {
    evendb_change *change;
    OK(evendb_changes_next(changes, millis, &change, E));
    return change;
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_position *position, *copy;
    evendb_snapshot *snapshot;
    evendb_changes *changes;
    evendb_change *change;
    evendb_batch *batch;
    evendb_value *bytes;
    const void *key, *value;
    const char *name;
    size_t key_size, value_size;
    int32_t kind;
    uint32_t id, same_id;
    uint64_t expires;
    pthread_t thread;
    evendb_merge_operator *by_last;
    evendb_keyspace_options *options;
    evendb_keyspace *texts;

    db = opened(below(directory, "db"));
    keyspace = default_of(db);
    OK(evendb_merge_operator_create("last", NULL, last, NULL, NULL, NULL, &by_last, E));
    OK(evendb_keyspace_options_create(&options, E));
    OK(evendb_keyspace_options_merge_operator(options, by_last, E));
    OK(evendb_keyspace_open(db, "texts", options, &texts, E));
    evendb_keyspace_options_free(options);
    evendb_merge_operator_free(by_last);

    put(keyspace, "before", "");
    OK(evendb_snapshot_create(db, &snapshot, E));
    OK(evendb_snapshot_position(snapshot, &position, E));
    evendb_snapshot_free(snapshot);
    OK(evendb_changes_open(db, position, &changes, E));
    evendb_position_free(position);
    CHECK(next(changes, 0) == NULL && next(changes, 1) == NULL);
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put_expiring_at(batch, keyspace, T("b"), T("2"), 4102444800000, E));
    OK(evendb_batch_delete(batch, keyspace, T("a"), E));
    OK(evendb_batch_merge(batch, texts, T("m"), T("first"), E));
    OK(evendb_batch_merge(batch, texts, T("m"), NULL, 0, E));
    OK(evendb_batch_delete_range(batch, texts, EVENDB_RANGE_BETWEEN, T("r"), T("s"), E));
    OK(evendb_batch_delete_range(batch, texts, EVENDB_RANGE_FROM, T("t"), NULL, 0, E));
    OK(evendb_batch_commit(batch, E));
    evendb_batch_free(batch);

    change = next(changes, 0);
    CHECK(evendb_change_count(change) == 5);
    CHECK(evendb_change_durability(change) == EVENDB_DURABILITY_PROCESS);
    OK(evendb_change_write(change, 0, &kind, &key, &key_size, &value, &value_size, &expires, E));
    CHECK(kind == EVENDB_CHANGE_DELETE_RANGE && same(key, key_size, "r") && same(value, value_size, "s"));
    OK(evendb_change_write(change, 1, &kind, &key, &key_size, &value, &value_size, &expires, E));
    CHECK(kind == EVENDB_CHANGE_DELETE_RANGE && same(key, key_size, "t") && value == NULL);
    OK(evendb_change_keyspace(change, 1, &name, &id, E));
    CHECK(strcmp(name, "texts") == 0);
    OK(evendb_keyspace_id(texts, &same_id, E));
    CHECK(id == same_id);
    OK(evendb_change_write(change, 2, &kind, &key, &key_size, &value, &value_size, &expires, E));
    CHECK(kind == EVENDB_CHANGE_DELETE && same(key, key_size, "a") && value == NULL && expires == 0);
    OK(evendb_change_write(change, 3, &kind, &key, &key_size, &value, &value_size, &expires, E));
    CHECK(kind == EVENDB_CHANGE_PUT && same(key, key_size, "b") && same(value, value_size, "2"));
    CHECK(expires == 4102444800000);
    OK(evendb_change_write(change, 4, &kind, &key, &key_size, NULL, NULL, NULL, E));
    CHECK(kind == EVENDB_CHANGE_MERGE && same(key, key_size, "m"));
    OK(evendb_change_operand(change, 4, 0, &value, &value_size, E));
    CHECK(same(value, value_size, "first"));
    OK(evendb_change_operand(change, 4, 1, &value, &value_size, E));
    CHECK(same(value, value_size, ""));
    OK(evendb_change_operand(change, 4, 2, &value, &value_size, E));
    CHECK(value == NULL);
    IS(evendb_change_write(change, 5, &kind, NULL, NULL, NULL, NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
    CHECK(evendb_change_count(NULL) == 0);

    /* A position as bytes, and on from there. */
    OK(evendb_change_position(change, &copy, E));
    OK(evendb_position_to_bytes(copy, &bytes, E));
    CHECK(evendb_value_size(bytes) >= 13);
    evendb_position_free(copy);
    OK(evendb_position_from_bytes(evendb_value_data(bytes), evendb_value_size(bytes), &copy, E));
    evendb_value_free(bytes);
    IS(evendb_position_from_bytes(T("no position"), &position, E), EVENDB_INVALID_ARGUMENT);
    CHECK(position == NULL);
    CHECK(pthread_create(&thread, NULL, writes_later, NULL) == 0);
    evendb_changes *second;
    OK(evendb_changes_open(db, copy, &second, E));
    evendb_position_free(copy);
    evendb_change *late = next(second, 30000);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(evendb_change_write(late, 0, &kind, &key, &key_size, NULL, NULL, NULL, E));
    CHECK(same(key, key_size, "late"));
    evendb_change_free(late);
    OK(evendb_changes_position(second, &copy, E));
    evendb_position_free(copy);
    OK(evendb_position_now(db, &copy, E));
    evendb_position_free(copy);
    OK(evendb_position_oldest(db, &copy, E));
    evendb_changes *all;
    OK(evendb_changes_open(db, copy, &all, E));
    evendb_position_free(copy);
    evendb_change_free(next(all, 0));
    evendb_changes_free(all);

    /* A close ends a wait without a limit; changes keep their bytes. */
    CHECK(pthread_create(&thread, NULL, closes_later, second) == 0);
    evendb_status status;
    do {
        status = evendb_changes_next(second, UINT64_MAX, &late, NULL);
    } while (status == EVENDB_BUSY);
    CHECK(status == EVENDB_CLOSED);
    CHECK(pthread_join(thread, NULL) == 0);
    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(texts);
    evendb_changes_free(second);
    evendb_changes_free(changes);
    evendb_changes_free(NULL);
    evendb_free(db);
    OK(evendb_change_write(change, 3, &kind, &key, &key_size, &value, &value_size, &expires, E));
    CHECK(same(key, key_size, "b") && same(value, value_size, "2"));
    evendb_change_free(change);
    evendb_change_free(NULL);
    return ended();
}
