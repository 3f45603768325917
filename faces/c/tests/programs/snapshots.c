/* Snapshots. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_db *foreign = opened(below(directory, "foreign"));
    evendb_keyspace *keyspace = default_of(db), *of_foreign = default_of(foreign);
    evendb_snapshot *snapshot;
    evendb_cursor *cursor;
    evendb_value *value, *values[2];
    const void *key;
    size_t key_size;
    int32_t found;

    put(keyspace, "a", "old");
    OK(evendb_snapshot_create(db, &snapshot, E));
    put(keyspace, "a", "new");
    put(keyspace, "b", "new");
    OK(evendb_snapshot_get(snapshot, keyspace, T("a"), &value, E));
    CHECK(value_is(value, "old"));
    OK(evendb_snapshot_get(snapshot, keyspace, T("b"), &value, E));
    CHECK(value == NULL);
    OK(evendb_snapshot_contains(snapshot, keyspace, T("a"), &found, E));
    CHECK(found == 1);
    OK(evendb_snapshot_contains(snapshot, keyspace, T("b"), &found, E));
    CHECK(found == 0);
    const void *keys[] = {"b", "a"};
    const size_t sizes[] = {1, 1};
    OK(evendb_snapshot_multi_get(snapshot, keyspace, 2, keys, sizes, values, E));
    CHECK(values[0] == NULL && value_is(values[1], "old"));
    OK(evendb_snapshot_get_part(snapshot, keyspace, T("a"), 1, 9, &value, E));
    CHECK(value_is(value, "ld"));
    OK(evendb_snapshot_get_part(snapshot, keyspace, T("b"), 0, 9, &value, E));
    CHECK(value == NULL);
    OK(evendb_snapshot_cursor(snapshot, keyspace, EVERYTHING, EVENDB_KEYS_ONLY, &cursor, E));
    OK(evendb_cursor_next(cursor, &key, &key_size, NULL, NULL, E));
    CHECK(same(key, key_size, "a"));
    /* The cursor keeps the moment. */
    evendb_snapshot_free(snapshot);
    evendb_snapshot_free(NULL);
    OK(evendb_cursor_next(cursor, &key, &key_size, NULL, NULL, E));
    CHECK(key == NULL);
    evendb_cursor_free(cursor);

    OK(evendb_snapshot_create(db, &snapshot, E));
    IS(evendb_snapshot_get(snapshot, of_foreign, T("a"), &value, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_snapshot_get(snapshot, NULL, T("a"), &value, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_snapshot_get_part(snapshot, of_foreign, T("a"), 0, 1, &value, E),
       EVENDB_INVALID_ARGUMENT);
    IS(evendb_snapshot_get_part(snapshot, NULL, T("a"), 0, 1, &value, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_snapshot_get_part(NULL, keyspace, T("a"), 0, 1, &value, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_snapshot_cursor(snapshot, of_foreign, EVERYTHING, 0, &cursor, E));
    IS(evendb_cursor_next(cursor, &key, &key_size, NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_cursor_next_back(cursor, &key, &key_size, NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
    evendb_cursor_free(cursor);
    evendb_snapshot_free(snapshot);
    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(of_foreign);
    OK(evendb_close(db, E));
    evendb_free(db);
    evendb_free(foreign);
    return ended();
}
