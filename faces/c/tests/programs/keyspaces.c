/* Keyspaces, their options and properties. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    char *path = below(directory, "db");
    evendb_db *db = opened(path);
    evendb_keyspace_options *options;
    evendb_keyspace *keyspace, *other;
    evendb_names *names;
    evendb_value *value;
    int32_t found;
    uint32_t id, other_id;

    OK(evendb_keyspace_exists(db, "edges", &found, E));
    CHECK(found == 0);
    OK(evendb_keyspace_options_create(&options, E));
    OK(evendb_keyspace_options_set(options, "compression", "lz4", E));
    OK(evendb_keyspace_options_set(options, "ttl", "7d", E));
    IS(evendb_keyspace_options_set(options, "ttll", "7d", E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_keyspace_open(db, "edges", options, &keyspace, E));
    OK(evendb_keyspace_exists(db, "edges", &found, E));
    CHECK(found == 1);
    IS(evendb_keyspace_open(db, "", NULL, &other, E), EVENDB_INVALID_ARGUMENT);
    CHECK(other == NULL);
    OK(evendb_keyspace_open(db, "nodes", NULL, &other, E));
    put(keyspace, "k", "edge");
    put(other, "k", "node");
    CHECK(holds(keyspace, "k", "edge"));
    CHECK(holds(other, "k", "node"));

    OK(evendb_keyspace_names(db, &names, E));
    CHECK(evendb_names_count(names) == 3);
    CHECK(strcmp(evendb_names_at(names, 1), "edges") == 0);
    CHECK(strcmp(evendb_names_at(names, 2), "nodes") == 0);
    CHECK(evendb_names_at(names, 3) == NULL);
    CHECK(evendb_names_count(NULL) == 0 && evendb_names_at(NULL, 0) == NULL);
    evendb_names_free(names);
    evendb_names_free(NULL);
    OK(evendb_keyspace_name(keyspace, &value, E));
    CHECK(value_is(value, "edges"));
    OK(evendb_keyspace_id(keyspace, &id, E));
    OK(evendb_keyspace_id(other, &other_id, E));
    CHECK(id != other_id);

    OK(evendb_keyspace_option(keyspace, "compression", &value, E));
    CHECK(value_is(value, "lz4"));
    OK(evendb_keyspace_option(keyspace, "row_cache", &value, E));
    CHECK(value == NULL);
    OK(evendb_keyspace_options_set(options, "compression", "none", E));
    OK(evendb_keyspace_set_options(keyspace, options, E));
    OK(evendb_keyspace_option(keyspace, "compression", &value, E));
    CHECK(value_is(value, "none"));
    OK(evendb_keyspace_set_options(keyspace, NULL, E));
    OK(evendb_keyspace_option(keyspace, "compression", &value, E));
    CHECK(value == NULL);
    evendb_keyspace_options_free(options);
    evendb_keyspace_options_free(NULL);

    OK(evendb_keyspace_property(keyspace, "schema", &value, E));
    CHECK(value == NULL);
    OK(evendb_keyspace_set_property(keyspace, "schema", T("app,time"), E));
    OK(evendb_keyspace_set_property(other, "empty", NULL, 0, E));
    OK(evendb_keyspace_property(keyspace, "schema", &value, E));
    CHECK(value_is(value, "app,time"));
    OK(evendb_keyspace_property(other, "empty", &value, E));
    CHECK(value_is(value, ""));
    OK(evendb_keyspace_remove_property(keyspace, "schema", E));
    OK(evendb_keyspace_property(keyspace, "schema", &value, E));
    CHECK(value == NULL);

    /* Names change; handles keep their records. */
    IS(evendb_rename_keyspace(db, "edges", "nodes", E), EVENDB_ALREADY_EXISTS);
    IS(evendb_rename_keyspace(db, "no such", "other", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_rename_keyspace(db, "edges", "", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_rename_keyspace(db, NULL, "other", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_rename_keyspace(NULL, "edges", "other", E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_rename_keyspace(db, "edges", "links", E));
    OK(evendb_keyspace_name(keyspace, &value, E));
    CHECK(value_is(value, "links") && holds(keyspace, "k", "edge"));
    OK(evendb_keyspace_exists(db, "edges", &found, E));
    CHECK(found == 0);
    IS(evendb_swap_keyspaces(db, "links", "edges", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_swap_keyspaces(db, "links", NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_swap_keyspaces(NULL, "links", "nodes", E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_swap_keyspaces(db, "links", "nodes", E));
    OK(evendb_keyspace_name(keyspace, &value, E));
    CHECK(value_is(value, "nodes") && holds(keyspace, "k", "edge"));
    OK(evendb_keyspace_name(other, &value, E));
    CHECK(value_is(value, "links") && holds(other, "k", "node"));
    OK(evendb_rename_keyspace(db, "nodes", "edges", E));

    OK(evendb_keyspace_drop(db, "edges", E));
    IS(evendb_get(keyspace, T("k"), &value, E), EVENDB_KEYSPACE_DROPPED);
    IS(evendb_keyspace_drop(db, "edges", E), EVENDB_INVALID_ARGUMENT);
    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(other);
    evendb_keyspace_free(NULL);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
