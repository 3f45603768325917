/* Values, ranges and reads. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_keyspace *keyspace = default_of(db);
    evendb_value *value, *values[3];
    char buffer[4];
    size_t size;
    int32_t found;
    uint64_t records, bytes;

    put(keyspace, "a", "1");
    put(keyspace, "", "of the empty key");
    OK(evendb_put(keyspace, T("empty"), NULL, 0, E));
    OK(evendb_get(keyspace, T("a"), &value, E));
    /* A value stays what it was. */
    put(keyspace, "a", "2");
    CHECK(value_is(value, "1"));
    CHECK(holds(keyspace, "a", "2"));
    CHECK(holds(keyspace, "", "of the empty key"));
    CHECK(holds(keyspace, "empty", ""));
    CHECK(holds(keyspace, "b", NULL));
    CHECK(evendb_value_data(NULL) == NULL && evendb_value_size(NULL) == 0);
    evendb_value_free(NULL);

    OK(evendb_get_into(keyspace, T("a"), buffer, sizeof buffer, &size, &found, E));
    CHECK(found == 1 && same(buffer, size, "2"));
    OK(evendb_get_into(keyspace, T("empty"), NULL, 0, &size, &found, E));
    CHECK(found == 1 && size == 0);
    OK(evendb_get_into(keyspace, T("b"), buffer, sizeof buffer, &size, &found, E));
    CHECK(found == 0 && size == 0);
    memset(buffer, 'x', sizeof buffer);
    IS(evendb_get_into(keyspace, NULL, 0, buffer, sizeof buffer, &size, &found, E),
       EVENDB_BUFFER_TOO_SMALL);
    CHECK(found == 1 && size == strlen("of the empty key"));
    CHECK(same(buffer, sizeof buffer, "xxxx"));

    OK(evendb_contains(keyspace, T("a"), &found, E));
    CHECK(found == 1);
    OK(evendb_contains(keyspace, T("b"), &found, E));
    CHECK(found == 0);

    const void *keys[] = {"empty", "b", "a"};
    const size_t sizes[] = {5, 1, 1};
    OK(evendb_multi_get(keyspace, 3, keys, sizes, values, E));
    CHECK(value_is(values[0], ""));
    CHECK(values[1] == NULL);
    CHECK(value_is(values[2], "2"));
    OK(evendb_multi_get(keyspace, 0, NULL, NULL, NULL, E));

    evendb_keyspace *other;
    OK(evendb_keyspace_open(db, "other", NULL, &other, E));
    put(other, "b", "of the other");
    const evendb_keyspace *keyspaces[] = {keyspace, other, other};
    OK(evendb_multi_get_across(db, 3, keyspaces, keys, sizes, values, E));
    CHECK(value_is(values[0], "") && value_is(values[1], "of the other") && values[2] == NULL);
    keyspaces[1] = NULL;
    IS(evendb_multi_get_across(db, 3, keyspaces, keys, sizes, values, E), EVENDB_INVALID_ARGUMENT);
    CHECK(values[0] == NULL);
    evendb_keyspace_free(other);

    for (int number = 0; number < 1000; number++) {
        char key[16];
        sprintf(key, "user/%04d", number);
        OK(evendb_put(keyspace, T(key), buffer, sizeof buffer, E));
    }
    OK(evendb_keyspace_compact(keyspace, EVERYTHING, NULL, E));
    OK(evendb_approximate_size(keyspace, EVENDB_RANGE_PREFIX, T("user/"), NULL, 0, &records, &bytes, E));
    CHECK(records > 600 && records <= 1003 && bytes > 600 * 13);
    OK(evendb_approximate_size(keyspace, EVENDB_RANGE_BETWEEN, T("v"), T("w"), &records, NULL, E));
    CHECK(records == 0);

    OK(evendb_approximate_len(keyspace, EVENDB_RANGE_PREFIX, T("user/"), NULL, 0, &bytes, E));
    CHECK(bytes > 600 && bytes <= 1003);
    OK(evendb_approximate_len(keyspace, EVENDB_RANGE_BETWEEN, T("v"), T("w"), &records, E));
    CHECK(records == 0);
    IS(evendb_approximate_len(keyspace, EVERYTHING, NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_approximate_len(NULL, EVERYTHING, &records, E), EVENDB_INVALID_ARGUMENT);

    /* Parts of values, which are cut to the value. */
    put(keyspace, "parts", "head and body");
    OK(evendb_get_part(keyspace, T("parts"), 0, 4, &values[0], E));
    CHECK(value_is(values[0], "head"));
    OK(evendb_get_part(keyspace, T("parts"), 9, 100, &values[0], E));
    CHECK(value_is(values[0], "body"));
    OK(evendb_get_part(keyspace, T("parts"), 9, UINT64_MAX, &values[0], E));
    CHECK(value_is(values[0], "body"));
    OK(evendb_get_part(keyspace, T("parts"), UINT64_MAX, UINT64_MAX, &values[0], E));
    CHECK(value_is(values[0], ""));
    OK(evendb_get_part(keyspace, T("parts"), 5, 0, &values[0], E));
    CHECK(value_is(values[0], ""));
    OK(evendb_get_part(keyspace, T("none"), 0, 4, &values[0], E));
    CHECK(values[0] == NULL);
    IS(evendb_get_part(keyspace, NULL, 1, 0, 4, &values[0], E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_get_part(NULL, T("parts"), 0, 4, &values[0], E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_get_part(keyspace, T("parts"), 0, 4, NULL, E), EVENDB_INVALID_ARGUMENT);

    /* The ends that a kind does not have are empty. */
    IS(evendb_approximate_size(keyspace, EVENDB_RANGE_ALL, T("a"), NULL, 0, &records, NULL, E),
       EVENDB_INVALID_ARGUMENT);
    IS(evendb_approximate_size(keyspace, EVENDB_RANGE_PREFIX, T("a"), T("b"), &records, NULL, E),
       EVENDB_INVALID_ARGUMENT);
    IS(evendb_approximate_size(keyspace, 7, NULL, 0, NULL, 0, &records, NULL, E),
       EVENDB_INVALID_ARGUMENT);
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
