/* A second opening that reads beside the writer; forks of databases; budgets that are shared. */
#include "check.h"

static void reads_beside_the_writer(const char *directory) {
    char *path = below(directory, "written");
    evendb_db *writer, *reader, *newer, *same_one;
    evendb_keyspace *written, *read, *of_newer;
    IS(evendb_open_beside_writer(path, NULL, &reader, E), EVENDB_NOT_FOUND);
    CHECK(reader == NULL);
    writer = opened(path);
    written = default_of(writer);
    put(written, "k", "1");
    OK(evendb_flush(writer, E));
    OK(evendb_open_beside_writer(path, NULL, &reader, E));
    read = default_of(reader);
    CHECK(holds(read, "k", "1"));
    IS(evendb_put(read, T("k"), T("2"), E), EVENDB_READ_ONLY);
    put(written, "k", "2");
    OK(evendb_flush(writer, E));
    CHECK(holds(read, "k", "1"));
    OK(evendb_refresh(reader, &newer, E));
    of_newer = default_of(newer);
    CHECK(holds(of_newer, "k", "2") && holds(read, "k", "1"));
    /* Each handle is freed, also of the same opening. */
    OK(evendb_refresh(newer, &same_one, E));
    evendb_keyspace_free(read);
    evendb_free(reader);
    evendb_free(newer);
    CHECK(holds(of_newer, "k", "2"));
    evendb_keyspace_free(of_newer);
    OK(evendb_close(same_one, E));
    evendb_free(same_one);
    IS(evendb_refresh(writer, &newer, E), EVENDB_INVALID_ARGUMENT);
    CHECK(newer == NULL);
    IS(evendb_refresh(NULL, &newer, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_refresh(writer, NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_open_beside_writer(NULL, NULL, &reader, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_open_beside_writer(path, NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
    put(written, "k", "3");
    evendb_keyspace_free(written);
    OK(evendb_close(writer, E));
    evendb_free(writer);
}

static void forks(const char *directory) {
    evendb_db *db = opened(below(directory, "parent")), *child;
    evendb_keyspace *keyspace = default_of(db), *of_child;
    evendb_summary *summary;
    evendb_value *value;
    static char large[4096];
    char key[16];
    for (int number = 0; number < 3000; number++) {
        for (size_t at = 0; at < sizeof large; at++) {
            large[at] = (char)rand();
        }
        sprintf(key, "%d", number);
        OK(evendb_put(keyspace, T(key), large, sizeof large, E));
    }
    put(keyspace, "7", "of the parent");
    OK(evendb_flush(db, E));
    OK(evendb_settle_debt(db, E));
    put(keyspace, "newest", "1");
    OK(evendb_fork(db, below(directory, "child"), 0, &summary, E));
    CHECK(figure(summary, "tables_copied") == 0 && figure(summary, "files_linked") >= 1);
    CHECK(figure(summary, "bytes_linked") > 0);
    evendb_summary_free(summary);
    put(keyspace, "newest", "2");
    child = opened(below(directory, "child"));
    of_child = default_of(child);
    CHECK(holds(of_child, "newest", "1") && holds(of_child, "7", "of the parent"));
    put(of_child, "7", "of the child");
    CHECK(holds(keyspace, "7", "of the parent") && holds(keyspace, "newest", "2"));
    IS(evendb_fork(db, below(directory, "child"), 1, NULL, E), EVENDB_ALREADY_EXISTS);
    IS(evendb_fork(db, below(directory, "parent/inside"), 0, NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_fork(NULL, "f", 0, NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_fork(db, NULL, 0, NULL, E), EVENDB_INVALID_ARGUMENT);
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    OK(evendb_destroy(below(directory, "parent"), E));
    OK(evendb_fork(child, below(directory, "grandchild"), 1, NULL, E));
    /* What the parent has removed is still there. */
    OK(evendb_get(of_child, T("2999"), &value, E));
    CHECK(evendb_value_size(value) == sizeof large);
    CHECK(memcmp(evendb_value_data(value), large, sizeof large) == 0);
    evendb_value_free(value);
    evendb_keyspace_free(of_child);
    OK(evendb_close(child, E));
    evendb_free(child);
    child = opened(below(directory, "grandchild"));
    of_child = default_of(child);
    CHECK(holds(of_child, "7", "of the child"));
    evendb_keyspace_free(of_child);
    evendb_free(child);
}

static void shared_budgets(const char *directory) {
    enum { DATABASES = 5 };
    evendb_shared *shared;
    evendb_options *options;
    evendb_summary *summary;
    evendb_db *each[DATABASES];
    IS(evendb_shared_create(1, 0, 0, 0, &shared, E), EVENDB_INVALID_ARGUMENT);
    CHECK(shared == NULL);
    IS(evendb_shared_create(64 << 20, 0, 10000, 0, &shared, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_shared_create(64 << 20, 0, 0, 0, NULL, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_shared_create(64 << 20, DATABASES, 2, 100, &shared, E));
    OK(evendb_options_create(&options, E));
    OK(evendb_options_set(options, "layout", layout_, E));
    IS(evendb_options_set_shared(NULL, shared, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_options_set_shared(options, NULL, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_options_set_shared(options, shared, E));
    for (int number = 0; number < DATABASES; number++) {
        char name[16];
        sprintf(name, "of%d", number);
        OK(evendb_open(below(directory, name), options, &each[number], E));
        evendb_keyspace *keyspace = default_of(each[number]);
        put(keyspace, "k", name);
        CHECK(holds(keyspace, "k", name));
        evendb_keyspace_free(keyspace);
    }
    OK(evendb_shared_figures(shared, &summary, E));
    CHECK(figure(summary, "databases") == DATABASES && figure(summary, "budget") == 64 << 20);
    CHECK(figure(summary, "parts") <= 64 << 20 && figure(summary, "threads") <= 2);
    evendb_summary_free(summary);
    IS(evendb_shared_figures(NULL, &summary, E), EVENDB_INVALID_ARGUMENT);
    /* A database leaves the budget with its last handle. */
    OK(evendb_close(each[0], E));
    evendb_free(each[0]);
    OK(evendb_shared_figures(shared, &summary, E));
    CHECK(figure(summary, "databases") == DATABASES - 1);
    evendb_summary_free(summary);
    /* Databases and options keep the budget. */
    evendb_shared_free(shared);
    evendb_shared_free(NULL);
    OK(evendb_open(below(directory, "of0"), options, &each[0], E));
    evendb_options_free(options);
    for (int number = 0; number < DATABASES; number++) {
        OK(evendb_close(each[number], E));
        evendb_free(each[number]);
    }
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    reads_beside_the_writer(directory);
    forks(directory);
    shared_budgets(directory);
    return ended();
}
