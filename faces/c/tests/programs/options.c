/* The lists of options: each default is taken back by its own text; what was set is told. */
#include "check.h"

static const char *name, *default_text, *takes, *limits, *about;

static int text_is(evendb_options *options, const char *of, const char *wanted) {
    evendb_value *text;
    OK(evendb_options_get(options, of, &text, E));
    return value_is(text, wanted);
}

static int is_a_kind(const char *kind) {
    const char *kinds[] = {"size",   "number", "fraction",  "time",
                           "switch", "choice", "two sizes", "two numbers"};
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        if (strcmp(kind, kinds[at]) == 0) {
            return 1;
        }
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_options *options;
    evendb_keyspace_options *of_keyspace;
    evendb_db *db;
    evendb_value *text;
    size_t index, budgets = 0;

    OK(evendb_options_create(&options, E));
    for (index = 0;; index++) {
        const char *again;
        char before[200];
        OK(evendb_options_at(index, &name, &default_text, &takes, &limits, &about, E));
        if (name == NULL) {
            break;
        }
        CHECK(strlen(name) > 0 && is_a_kind(takes) && strlen(limits) > 0 && strlen(about) > 3);
        /* The text of the default sets what is there by default. */
        OK(evendb_options_get(options, name, &text, E));
        CHECK(text != NULL && evendb_value_size(text) < sizeof before);
        sprintf(before, "%.*s", (int)evendb_value_size(text), (const char *)evendb_value_data(text));
        evendb_value_free(text);
        CHECK(strcmp(default_text, "auto") == 0 || strcmp(default_text, before) == 0);
        OK(evendb_options_set(options, name, default_text, E));
        CHECK(text_is(options, name, before));
        OK(evendb_options_at(index, &again, NULL, NULL, NULL, NULL, E));
        CHECK(again == name);
        budgets += strcmp(name, "memory_budget") == 0 && strcmp(takes, "size") == 0;
    }
    CHECK(budgets == 1 && index > 30);
    CHECK(default_text == NULL && takes == NULL && limits == NULL && about == NULL);
    OK(evendb_options_at(SIZE_MAX, &name, NULL, NULL, NULL, NULL, E));
    CHECK(name == NULL);
    OK(evendb_options_at(0, NULL, NULL, NULL, NULL, NULL, E));

    OK(evendb_options_set(options, "memory_budget", "32 MiB", E));
    CHECK(text_is(options, "memory_budget", "32MiB"));
    OK(evendb_options_set(options, "guards.max_files_per_guard", "4", E));
    CHECK(text_is(options, "guards.max_files_per_guard", "4"));
    OK(evendb_options_set(options, "layout", layout_, E));
    CHECK(text_is(options, "layout", layout_));
    /* A text that is refused leaves everything as it was. */
    IS(evendb_options_set(options, "memory_budget", "1", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_options_set(options, "memory_budget", "-1", E), EVENDB_INVALID_ARGUMENT);
    CHECK(text_is(options, "memory_budget", "32MiB"));
    IS(evendb_options_get(options, "memory", &text, E), EVENDB_INVALID_ARGUMENT);
    CHECK(text == NULL);
    OK(evendb_open(below(directory, "db"), options, &db, E));
    OK(evendb_close(db, E));
    evendb_free(db);
    evendb_options_free(options);

    OK(evendb_keyspace_options_create(&of_keyspace, E));
    for (index = 0;; index++) {
        OK(evendb_keyspace_options_at(index, &name, &default_text, &takes, &limits, &about, E));
        if (name == NULL) {
            break;
        }
        CHECK(is_a_kind(takes) && strlen(limits) > 0 && strlen(about) > 3);
        OK(evendb_keyspace_options_get(of_keyspace, name, &text, E));
        CHECK(value_is(text, default_text));
        OK(evendb_keyspace_options_set(of_keyspace, name, default_text, E));
    }
    CHECK(index > 5);
    OK(evendb_keyspace_options_set(of_keyspace, "ttl", "5000ms", E));
    OK(evendb_keyspace_options_get(of_keyspace, "ttl", &text, E));
    CHECK(value_is(text, "5s"));
    OK(evendb_keyspace_options_set(of_keyspace, "ttl", "none", E));
    OK(evendb_keyspace_options_get(of_keyspace, "ttl", &text, E));
    CHECK(value_is(text, "none"));
    IS(evendb_keyspace_options_get(of_keyspace, "memory_budget", &text, E), EVENDB_INVALID_ARGUMENT);
    evendb_keyspace_options_free(of_keyspace);
    return ended();
}
