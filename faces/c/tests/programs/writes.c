/* Writes of single records and of ranges, expiry, compare-and-swap, pops. */
#include "check.h"
#include <time.h>

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_keyspace *keyspace = default_of(db);
    evendb_value *key, *value;
    int32_t swapped;
    char *large = calloc(1, 70000);

    put(keyspace, "a", "1");
    OK(evendb_delete(keyspace, T("a"), E));
    CHECK(holds(keyspace, "a", NULL));
    OK(evendb_delete(keyspace, T("never"), E));
    put(keyspace, "once", "1");
    OK(evendb_single_delete(keyspace, T("once"), E));
    CHECK(holds(keyspace, "once", NULL));
    IS(evendb_put(keyspace, large, 70000, T("v"), E), EVENDB_KEY_TOO_LARGE);
    IS(evendb_merge(keyspace, T("a"), T("1"), E), EVENDB_INVALID_ARGUMENT);

    OK(evendb_put_with_ttl(keyspace, T("ttl"), T("gone"), 0, E));
    CHECK(holds(keyspace, "ttl", NULL));
    OK(evendb_put_with_ttl(keyspace, T("ttl"), T("there"), 3600000, E));
    CHECK(holds(keyspace, "ttl", "there"));
    uint64_t now = (uint64_t)time(NULL) * 1000;
    OK(evendb_put_expiring_at(keyspace, T("at"), T("gone"), now - 5000, E));
    CHECK(holds(keyspace, "at", NULL));
    OK(evendb_put_expiring_at(keyspace, T("at"), T("there"), now + 3600000, E));
    CHECK(holds(keyspace, "at", "there"));
    OK(evendb_put_expiring_at(keyspace, T("at"), T("for ever"), UINT64_MAX, E));
    CHECK(holds(keyspace, "at", "for ever"));

    put(keyspace, "log/1", "");
    put(keyspace, "log/2", "");
    put(keyspace, "log/3", "");
    OK(evendb_delete_range(keyspace, EVENDB_RANGE_BETWEEN, T("log/"), T("log/2"), E));
    CHECK(holds(keyspace, "log/1", NULL) && holds(keyspace, "log/2", ""));
    /* A range whose upper end was lost is no range of everything. */
    OK(evendb_delete_range(keyspace, EVENDB_RANGE_BETWEEN, T("log/"), NULL, 0, E));
    IS(evendb_delete_range(keyspace, EVENDB_RANGE_ALL, T("log/"), NULL, 0, E),
       EVENDB_INVALID_ARGUMENT);
    CHECK(holds(keyspace, "log/2", ""));
    OK(evendb_delete_range(keyspace, EVENDB_RANGE_PREFIX, T("log/"), NULL, 0, E));
    CHECK(holds(keyspace, "log/3", NULL) && holds(keyspace, "ttl", "there"));
    OK(evendb_delete_range(keyspace, EVENDB_RANGE_FROM, T("b"), NULL, 0, E));
    CHECK(holds(keyspace, "ttl", NULL) && holds(keyspace, "at", "for ever"));
    OK(evendb_delete_range(keyspace, EVERYTHING, E));
    CHECK(holds(keyspace, "at", NULL));

    OK(evendb_compare_and_swap(keyspace, T("leader"), 0, NULL, 0, 1, T("a"), &swapped, &value, E));
    CHECK(swapped == 1 && value == NULL);
    OK(evendb_compare_and_swap(keyspace, T("leader"), 0, NULL, 0, 1, T("b"), &swapped, &value, E));
    CHECK(swapped == 0 && value_is(value, "a"));
    OK(evendb_compare_and_swap(keyspace, T("leader"), 1, T("a"), 1, NULL, 0, &swapped, NULL, E));
    CHECK(swapped == 1 && holds(keyspace, "leader", ""));
    OK(evendb_compare_and_swap(keyspace, T("leader"), 1, NULL, 0, 0, NULL, 0, &swapped, NULL, E));
    CHECK(swapped == 1 && holds(keyspace, "leader", NULL));
    OK(evendb_compare_and_swap(keyspace, T("leader"), 1, T("a"), 0, NULL, 0, &swapped, &value, E));
    CHECK(swapped == 0 && value == NULL);
    IS(evendb_compare_and_swap(keyspace, T("leader"), 0, T("a"), 0, NULL, 0, &swapped, &value, E),
       EVENDB_INVALID_ARGUMENT);

    put(keyspace, "q/1", "first");
    put(keyspace, "q/2", "second");
    put(keyspace, "q/3", "third");
    OK(evendb_pop_first(keyspace, EVENDB_RANGE_PREFIX, T("q/"), NULL, 0, &key, &value, E));
    CHECK(value_is(key, "q/1") && value_is(value, "first"));
    OK(evendb_pop_last(keyspace, EVERYTHING, &key, NULL, E));
    CHECK(value_is(key, "q/3"));
    OK(evendb_pop_first(keyspace, EVERYTHING, NULL, NULL, E));
    OK(evendb_pop_last(keyspace, EVERYTHING, &key, &value, E));
    CHECK(key == NULL && value == NULL);
    free(large);
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
