/* Batches. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_db *foreign = opened(below(directory, "foreign"));
    evendb_keyspace *keyspace = default_of(db), *edges, *of_foreign = default_of(foreign);
    evendb_batch *batch;
    size_t writes;
    uint64_t bytes;
    char *large = calloc(1, 70000);

    OK(evendb_keyspace_open(db, "edges", NULL, &edges, E));
    put(keyspace, "b", "before");
    put(keyspace, "log/1", "");
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("a"), T("1"), E));
    OK(evendb_batch_put(batch, edges, T("1->2"), NULL, 0, E));
    OK(evendb_batch_delete(batch, keyspace, T("b"), E));
    OK(evendb_batch_delete_range(batch, keyspace, EVENDB_RANGE_PREFIX, T("log/"), NULL, 0, E));
    OK(evendb_batch_put_with_ttl(batch, keyspace, T("t"), T("gone"), 0, E));
    OK(evendb_batch_put_expiring_at(batch, keyspace, T("u"), T("there"), UINT64_MAX, E));
    OK(evendb_batch_size(batch, &writes, &bytes, E));
    CHECK(writes == 6 && bytes > 6 * 64);
    CHECK(holds(keyspace, "a", NULL));
    OK(evendb_batch_durability(batch, EVENDB_DURABILITY_SYNC, E));
    IS(evendb_batch_durability(batch, 3, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_batch_commit(batch, E));
    CHECK(holds(keyspace, "a", "1") && holds(edges, "1->2", "") && holds(keyspace, "b", NULL));
    CHECK(holds(keyspace, "log/1", NULL) && holds(keyspace, "t", NULL) && holds(keyspace, "u", "there"));
    /* Used up: a status, and only freeing is left. */
    IS(evendb_batch_commit(batch, E), EVENDB_USED_UP);
    IS(evendb_batch_put(batch, keyspace, T("a"), T("2"), E), EVENDB_USED_UP);
    IS(evendb_batch_size(batch, &writes, &bytes, E), EVENDB_USED_UP);
    CHECK(writes == 0 && bytes == 0);
    evendb_batch_free(batch);
    evendb_batch_free(NULL);

    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_single_delete(batch, keyspace, T("a"), E));
    OK(evendb_batch_clear(batch, E));
    OK(evendb_batch_put(batch, keyspace, T("c"), T("3"), E));
    OK(evendb_batch_commit(batch, E));
    evendb_batch_free(batch);
    CHECK(holds(keyspace, "a", "1") && holds(keyspace, "c", "3"));

    /* All or nothing; limits are told by the commit. */
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("d"), T("4"), E));
    OK(evendb_batch_put(batch, keyspace, large, 70000, T("v"), E));
    IS(evendb_batch_commit(batch, E), EVENDB_KEY_TOO_LARGE);
    evendb_batch_free(batch);
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("d"), T("4"), E));
    OK(evendb_batch_put(batch, of_foreign, T("d"), T("4"), E));
    IS(evendb_batch_commit(batch, E), EVENDB_INVALID_ARGUMENT);
    evendb_batch_free(batch);
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_merge(batch, keyspace, T("d"), T("4"), E));
    IS(evendb_batch_commit(batch, E), EVENDB_INVALID_ARGUMENT);
    evendb_batch_free(batch);
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("d"), T("4"), E));
    IS(evendb_batch_put(batch, NULL, T("d"), T("4"), E), EVENDB_INVALID_ARGUMENT);
    evendb_batch_free(batch);
    CHECK(holds(keyspace, "d", NULL));
    free(large);
    evendb_keyspace_free(edges);
    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(of_foreign);
    OK(evendb_close(db, E));
    evendb_free(db);
    evendb_free(foreign);
    return ended();
}
