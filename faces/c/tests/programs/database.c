/* Databases: opened, closed, made durable, made small, removed. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    char *path = below(directory, "db");
    evendb_db *db = opened(path);
    evendb_keyspace *keyspace = default_of(db);
    evendb_summary *summary;
    evendb_options *options;

    put(keyspace, "a", "1");
    OK(evendb_persist(db, E));
    OK(evendb_flush(db, E));
    OK(evendb_delete(keyspace, T("a"), E));
    OK(evendb_settle_debt(db, E));
    OK(evendb_compact(db, &summary, E));
    CHECK(figure(summary, "chunks") >= 1);
    evendb_summary_free(summary);
    OK(evendb_compact(db, NULL, E));
    put(keyspace, "b", "2");

    /* Closed for all handles; the handles stay. */
    OK(evendb_close(db, E));
    OK(evendb_close(db, E));
    IS(evendb_put(keyspace, T("c"), T("3"), E), EVENDB_CLOSED);
    IS(evendb_persist(db, E), EVENDB_CLOSED);
    evendb_db *again = opened(path);
    evendb_keyspace *of_again = default_of(again);
    CHECK(holds(of_again, "a", NULL));
    CHECK(holds(of_again, "b", "2"));
    evendb_keyspace_free(keyspace);
    evendb_free(db);

    /* Without a close the last handle closes it. */
    evendb_free(again);
    evendb_db *refused;
    IS(evendb_open(path, NULL, &refused, E), EVENDB_LOCKED);
    put(of_again, "d", "4");
    evendb_keyspace_free(of_again);
    evendb_free(NULL);

    OK(evendb_options_create(&options, E));
    OK(evendb_options_set(options, "read_only", "true", E));
    OK(evendb_open(path, options, &db, E));
    evendb_options_free(options);
    keyspace = default_of(db);
    CHECK(holds(keyspace, "d", "4"));
    IS(evendb_put(keyspace, T("c"), T("3"), E), EVENDB_READ_ONLY);
    IS(evendb_destroy(path, E), EVENDB_LOCKED);
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    OK(evendb_destroy(path, E));
    OK(evendb_destroy(path, E));
    FILE *foreign = fopen(below(directory, "CURRENT"), "w");
    CHECK(foreign != NULL && fputs("MANIFEST-000001\n", foreign) > 0 && fclose(foreign) == 0);
    IS(evendb_destroy(directory, E), EVENDB_UNSUPPORTED);
    return ended();
}
