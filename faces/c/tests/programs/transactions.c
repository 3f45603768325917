/* Transactions, and cursors over them. */
#include "check.h"

static evendb_transaction *begun(const evendb_db *db) {
    evendb_transaction *transaction;
    OK(evendb_transaction_begin(db, &transaction, E));
    return transaction;
}

static int sees(evendb_transaction *transaction, const evendb_keyspace *keyspace, const char *key,
                const char *text) {
    evendb_value *value;
    OK(evendb_transaction_get(transaction, keyspace, T(key), &value, E));
    return value_is(value, text);
}

static int next_is(evendb_cursor *cursor, int back, const char *text, const char *of_value) {
    const void *key, *value;
    size_t key_size, value_size;
    OK(back ? evendb_cursor_next_back(cursor, &key, &key_size, &value, &value_size, E)
            : evendb_cursor_next(cursor, &key, &key_size, &value, &value_size, E));
    return text == NULL ? key == NULL
                        : same(key, key_size, text) && same(value, value_size, of_value);
}

static void cursors(const evendb_db *db, const evendb_keyspace *keyspace) {
    evendb_transaction *transaction = begun(db);
    evendb_cursor *cursor;
    char buffer[64];
    size_t used, records;
    OK(evendb_delete_range(keyspace, EVERYTHING, E));
    evendb_transaction_free(transaction);
    for (int number = 0; number < 1000; number++) {
        char key[16];
        sprintf(key, "%04d", number);
        put(keyspace, key, "stored");
    }
    transaction = begun(db);
    OK(evendb_transaction_put(transaction, keyspace, T("0001"), T("own"), E));
    OK(evendb_transaction_delete(transaction, keyspace, T("0002"), E));
    OK(evendb_transaction_cursor(transaction, keyspace, EVENDB_RANGE_FROM, T("0000"), NULL, 0, 0, &cursor, E));
    CHECK(next_is(cursor, 0, "0000", "stored") && next_is(cursor, 0, "0001", "own"));
    CHECK(next_is(cursor, 0, "0003", "stored"));
    /* What is written meanwhile is seen, ahead of the cursor and not behind it. */
    OK(evendb_transaction_put(transaction, keyspace, T("0003+"), T("late"), E));
    OK(evendb_transaction_put(transaction, keyspace, T("0002"), T("behind"), E));
    OK(evendb_transaction_delete(transaction, keyspace, T("0004"), E));
    CHECK(next_is(cursor, 0, "0003+", "late") && next_is(cursor, 0, "0005", "stored"));
    CHECK(next_is(cursor, 1, "0999", "stored") && next_is(cursor, 1, "0998", "stored"));
    CHECK(next_is(cursor, 0, "0006", "stored"));
    OK(evendb_cursor_seek(cursor, T("0002"), E));
    CHECK(next_is(cursor, 0, "0002", "behind"));
    OK(evendb_cursor_seek_back(cursor, T("0004"), E));
    CHECK(next_is(cursor, 1, "0003+", "late"));
    OK(evendb_cursor_fill(cursor, buffer, sizeof buffer, &used, &records, E));
    CHECK(records == 1 && used == 8 + 4 + 6);
    CHECK(next_is(cursor, 0, NULL, NULL) && next_is(cursor, 1, NULL, NULL));
    evendb_cursor_free(cursor);

    int steps = 0;
    OK(evendb_transaction_cursor(transaction, keyspace, EVERYTHING, EVENDB_KEYS_ONLY, &cursor, E));
    for (const void *key = buffer; key != NULL; steps++) {
        OK(evendb_cursor_next(cursor, &key, NULL, NULL, NULL, E));
    }
    CHECK(steps - 1 == 1000);
    /* A cursor outlives its transaction, and says so. */
    OK(evendb_cursor_seek(cursor, NULL, 0, E));
    OK(evendb_transaction_commit(transaction, E));
    evendb_transaction_free(transaction);
    const void *key;
    IS(evendb_cursor_next(cursor, &key, NULL, NULL, NULL, E), EVENDB_USED_UP);
    evendb_cursor_free(cursor);

    /* What a cursor has passed counts as read. */
    transaction = begun(db);
    OK(evendb_transaction_cursor(transaction, keyspace, EVENDB_RANGE_PREFIX, T("00"), NULL, 0, 0, &cursor, E));
    CHECK(next_is(cursor, 0, "0000", "stored"));
    put(keyspace, "0000", "changed");
    OK(evendb_transaction_put(transaction, keyspace, T("x"), T("y"), E));
    IS(evendb_transaction_commit(transaction, E), EVENDB_CONFLICT);
    evendb_cursor_free(cursor);
    evendb_transaction_free(transaction);
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_db *foreign = opened(below(directory, "foreign"));
    evendb_keyspace *keyspace = default_of(db), *of_foreign = default_of(foreign);
    evendb_transaction *first, *second;
    evendb_value *value, *values[2];
    int32_t found;
    size_t writes;
    uint64_t savepoint, later;

    put(keyspace, "x", "1");
    first = begun(db);
    second = begun(db);
    CHECK(sees(first, keyspace, "x", "1") && sees(second, keyspace, "x", "1"));
    OK(evendb_transaction_put(first, keyspace, T("x"), T("2"), E));
    OK(evendb_transaction_put(second, keyspace, T("x"), T("3"), E));
    CHECK(sees(first, keyspace, "x", "2") && holds(keyspace, "x", "1"));
    OK(evendb_transaction_durability(first, EVENDB_DURABILITY_SYNC, E));
    OK(evendb_transaction_commit(first, E));
    IS(evendb_transaction_commit(second, E), EVENDB_CONFLICT);
    IS(evendb_transaction_commit(second, E), EVENDB_USED_UP);
    IS(evendb_transaction_get(first, keyspace, T("x"), &value, E), EVENDB_USED_UP);
    CHECK(value == NULL && holds(keyspace, "x", "2"));
    evendb_transaction_free(first);
    evendb_transaction_free(second);
    evendb_transaction_free(NULL);

    first = begun(db);
    OK(evendb_transaction_put(first, keyspace, T("a"), T("1"), E));
    OK(evendb_transaction_savepoint(first, &savepoint, E));
    OK(evendb_transaction_put_with_ttl(first, keyspace, T("b"), T("2"), 3600000, E));
    OK(evendb_transaction_put_expiring_at(first, keyspace, T("c"), T("3"), UINT64_MAX, E));
    OK(evendb_transaction_savepoint(first, &later, E));
    OK(evendb_transaction_delete_range(first, keyspace, EVERYTHING, E));
    OK(evendb_transaction_contains(first, keyspace, T("a"), &found, E));
    CHECK(found == 0);
    OK(evendb_transaction_rollback_to(first, later, E));
    const void *keys[] = {"b", "x"};
    const size_t sizes[] = {1, 1};
    OK(evendb_transaction_multi_get(first, keyspace, 2, keys, sizes, values, E));
    CHECK(value_is(values[0], "2") && value_is(values[1], "2"));
    OK(evendb_transaction_rollback_to(first, savepoint, E));
    IS(evendb_transaction_rollback_to(first, later, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_transaction_rollback_to(first, 0, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_transaction_rollback_to(first, 9, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_transaction_size(first, &writes, E));
    CHECK(writes == 1 && sees(first, keyspace, "b", NULL));
    OK(evendb_transaction_single_delete(first, keyspace, T("x"), E));
    IS(evendb_transaction_merge(first, keyspace, T("x"), T("1"), E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_transaction_get(first, of_foreign, T("x"), &value, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_transaction_commit(first, E));
    evendb_transaction_free(first);
    CHECK(holds(keyspace, "a", "1") && holds(keyspace, "x", NULL));

    first = begun(db);
    OK(evendb_transaction_put(first, keyspace, T("a"), T("never"), E));
    OK(evendb_transaction_rollback(first, E));
    IS(evendb_transaction_rollback(first, E), EVENDB_USED_UP);
    evendb_transaction_free(first);
    first = begun(db);
    OK(evendb_transaction_put(first, keyspace, T("a"), T("never"), E));
    evendb_transaction_free(first);
    CHECK(holds(keyspace, "a", "1"));

    /* Locks. */
    first = begun(db);
    second = begun(db);
    OK(evendb_transaction_get_for_update(first, keyspace, T("a"), &value, E));
    CHECK(value_is(value, "1"));
    OK(evendb_transaction_lock_timeout(second, 1, E));
    IS(evendb_transaction_get_for_update(second, keyspace, T("a"), &value, E), EVENDB_LOCK_TIMEOUT);
    evendb_transaction_free(first);
    evendb_transaction_free(second);

    cursors(db, keyspace);
    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(of_foreign);
    OK(evendb_close(db, E));
    evendb_free(db);
    evendb_free(foreign);
    return ended();
}
