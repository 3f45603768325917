/* Ingests, exports, imports. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_keyspace *keyspace = default_of(db), *other;
    evendb_ingest *ingest;
    evendb_summary *summary;
    evendb_export_writer *writer;
    evendb_value *value;

    OK(evendb_ingest_begin(keyspace, &ingest, E));
    for (int number = 0; number < 1000; number++) {
        char key[16];
        sprintf(key, "%04d", number);
        OK(evendb_ingest_put(ingest, T(key), T("value"), E));
    }
    OK(evendb_ingest_put_expiring_at(ingest, T("9999"), T("gone"), 1000, E));
    CHECK(holds(keyspace, "0007", NULL));
    OK(evendb_ingest_finish(ingest, &summary, E));
    CHECK(figure(summary, "records") == 1001);
    uint64_t number;
    IS(evendb_summary_get(summary, "recods", &number, E), EVENDB_INVALID_ARGUMENT);
    evendb_summary_free(summary);
    CHECK(holds(keyspace, "0007", "value") && holds(keyspace, "9999", NULL));
    IS(evendb_ingest_put(ingest, T("x"), T("y"), E), EVENDB_USED_UP);
    evendb_ingest_free(ingest);
    OK(evendb_ingest_begin(keyspace, &ingest, E));
    OK(evendb_ingest_put(ingest, T("b"), T("y"), E));
    IS(evendb_ingest_put(ingest, T("a"), T("y"), E), EVENDB_UNSORTED);
    evendb_ingest_free(ingest);
    evendb_ingest_free(NULL);
    CHECK(holds(keyspace, "b", NULL));

    OK(evendb_keyspace_set_property(keyspace, "schema", T("four digits"), E));
    char *exported = below(directory, "exported");
    OK(evendb_export(keyspace, exported, &summary, E));
    CHECK(figure(summary, "records") == 1000);
    evendb_summary_free(summary);
    IS(evendb_export(keyspace, exported, NULL, E), EVENDB_ALREADY_EXISTS);
    OK(evendb_export_property(exported, "schema", &value, E));
    CHECK(value_is(value, "four digits"));
    OK(evendb_export_property(exported, "none", &value, E));
    CHECK(value == NULL);
    OK(evendb_keyspace_open(db, "other", NULL, &other, E));
    OK(evendb_import(other, exported, &summary, E));
    CHECK(figure(summary, "records") == 1000);
    evendb_summary_free(summary);
    CHECK(holds(other, "0999", "value"));
    IS(evendb_import(other, below(directory, "nowhere"), NULL, E), EVENDB_NOT_FOUND);

    char *made = below(directory, "made");
    OK(evendb_export_writer_create(made, &writer, E));
    OK(evendb_export_writer_put(writer, T("a"), T("1"), E));
    OK(evendb_export_writer_finish(writer, NULL, E));
    IS(evendb_export_writer_finish(writer, NULL, E), EVENDB_USED_UP);
    evendb_export_writer_free(writer);
    evendb_export_writer_free(NULL);
    OK(evendb_import(other, made, NULL, E));
    CHECK(holds(other, "a", "1"));
    OK(evendb_export_writer_create(below(directory, "given up"), &writer, E));
    evendb_export_writer_free(writer);
    IS(evendb_import(other, below(directory, "given up"), NULL, E), EVENDB_NOT_FOUND);
    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(other);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
