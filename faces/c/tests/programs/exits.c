/* The program ends without closing, in the midst of its work: from main, from another thread, or from a
 * callback of the store, as its third argument says. With "look" it opens what was left and looks. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static const char *how;
static int calls;

static int32_t last(void *of, const void *key, size_t key_size, const void *existing,
                    size_t existing_size, const void *const *operands, const size_t *sizes,
                    size_t count, evendb_merge_result *result) {
    (void)of, (void)key, (void)key_size, (void)existing, (void)existing_size;
    if (strcmp(how, "callback") == 0 && ++calls == 5) {
        exit(0);
    }
    return evendb_merge_result_set(result, operands[count - 1], sizes[count - 1]);
}

static void *ends(void *unused) {
    usleep(30000);
    exit(0);
    return unused;
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    layout_ = arguments[2];
    how = arguments[3];
    evendb_merge_operator *by;
    evendb_keyspace_options *options;
    evendb_keyspace *keyspace, *merged;
    evendb_value *value;
    evendb_db *db = opened(below(arguments[1], "db"));
    OK(evendb_merge_operator_create("last", NULL, last, NULL, NULL, NULL, &by, E));
    OK(evendb_keyspace_options_create(&options, E));
    OK(evendb_keyspace_options_merge_operator(options, by, E));
    OK(evendb_keyspace_open(db, "merged", options, &merged, E));
    keyspace = default_of(db);
    if (strcmp(how, "look") == 0) {
        CHECK(holds(keyspace, "first", "there"));
        OK(evendb_get(merged, T("0"), &value, E));
        evendb_value_free(value);
        OK(evendb_close(db, E));
        return ended();
    }
    put(keyspace, "first", "there");
    pthread_t thread;
    if (strcmp(how, "thread") == 0) {
        CHECK(pthread_create(&thread, NULL, ends, NULL) == 0);
    }
    char *bytes = calloc(1, 1000);
    for (int round = 0;; round++) {
        for (int number = 0; number < 200; number++) {
            char key[16];
            sprintf(key, "%d", number);
            OK(evendb_put(keyspace, T(key), bytes, 1000, E));
            OK(evendb_merge(merged, T(key), bytes, 1000, E));
        }
        if (round == 20 && strcmp(how, "main") == 0) {
            exit(0);
        }
        if (round % 4 == 1 && strcmp(how, "callback") == 0) {
            OK(evendb_compact(db, NULL, E));
        }
    }
}
