/* Merge operators and compaction filters in C: results from an arena, from the stack and out of an
 * operand; each context is freed once; failures are told. */
#include "check.h"

static int destroyed;

static void count_destroyed(void *context) {
    CHECK(strcmp(context, "context") == 0);
    free(context);
    destroyed++;
}

static char *context(void) {
    char *text = malloc(8);
    CHECK(text != NULL);
    strcpy(text, "context");
    return text;
}

/* Joins with commas, in an arena that is freed before it returns. */
static int32_t join(void *of, const void *key, size_t key_size, const void *existing,
                    size_t existing_size, const void *const *operands, const size_t *sizes,
                    size_t count, evendb_merge_result *result) {
    CHECK(strcmp(of, "context") == 0 && key != NULL && count >= 1);
    if (key_size == 4 && memcmp(key, "fail", 4) == 0) {
        evendb_merge_result_fail(result, "planted");
        return 7;
    }
    size_t size = existing == NULL ? 0 : existing_size, used = 0;
    for (size_t index = 0; index < count; index++) {
        size += 1 + sizes[index];
    }
    char *arena = malloc(size);
    CHECK(arena != NULL);
    if (existing != NULL) {
        memcpy(arena, existing, existing_size);
        used = existing_size;
    }
    for (size_t index = 0; index < count; index++) {
        if (used > 0) {
            arena[used++] = ',';
        }
        memcpy(arena + used, operands[index], sizes[index]);
        used += sizes[index];
    }
    CHECK(evendb_merge_result_set(result, arena, used) == EVENDB_OK);
    memset(arena, 'x', size);
    free(arena);
    return 0;
}

/* The last operand, by its own bytes; "none" takes the value away. */
static int32_t last(void *of, const void *key, size_t key_size, const void *existing,
                    size_t existing_size, const void *const *operands, const size_t *sizes,
                    size_t count, evendb_merge_result *result) {
    (void)of, (void)key, (void)key_size, (void)existing, (void)existing_size;
    if (same(operands[count - 1], sizes[count - 1], "none")) {
        return 0;
    }
    CHECK(evendb_merge_result_set(result, NULL, 1) == EVENDB_INVALID_ARGUMENT);
    return evendb_merge_result_set(result, operands[count - 1], sizes[count - 1]);
}

static int32_t last_of_operands(void *of, const void *key, size_t key_size,
                                const void *const *operands, const size_t *sizes, size_t count,
                                evendb_merge_result *result) {
    CHECK(count >= 2);
    (void)of, (void)key, (void)key_size;
    return evendb_merge_result_set(result, operands[count - 1], sizes[count - 1]);
}

static int32_t no_spaces(void *of, const void *key, size_t key_size, const void *bytes, size_t size,
                         int32_t is_operand) {
    (void)of, (void)key, (void)key_size, (void)is_operand;
    return memchr(bytes, ' ', size) != NULL;
}

static int32_t filter(void *of, const void *key, size_t key_size, const void *value, size_t value_size,
                      evendb_filter_result *result) {
    char on_stack[] = "replaced";
    CHECK(strcmp(of, "context") == 0);
    (void)key, (void)key_size;
    if (same(value, value_size, "drop")) {
        return EVENDB_FILTER_DROP;
    }
    if (same(value, value_size, "replace")) {
        CHECK(evendb_filter_result_set(result, on_stack, strlen(on_stack)) == EVENDB_OK);
        return EVENDB_FILTER_REPLACE;
    }
    /* A decision without a meaning keeps the record. */
    return same(value, value_size, "odd") ? 99 : EVENDB_FILTER_KEEP;
}

static evendb_keyspace *with(const evendb_db *db, const char *name, const evendb_merge_operator *by) {
    evendb_keyspace_options *options;
    evendb_keyspace *keyspace;
    OK(evendb_keyspace_options_create(&options, E));
    OK(evendb_keyspace_options_merge_operator(options, by, E));
    OK(evendb_keyspace_open(db, name, options, &keyspace, E));
    evendb_keyspace_options_free(options);
    return keyspace;
}

static void merge(const evendb_keyspace *keyspace, const char *key, const char *operand) {
    OK(evendb_merge(keyspace, T(key), T(operand), E));
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    char *path = below(directory, "db");
    evendb_db *db = opened(path);
    evendb_keyspace *keyspace, *lasts, *sums;
    evendb_merge_operator *join_by, *last_by, *add;
    evendb_value *value;
    evendb_error *error;
    evendb_transaction *transaction;

    IS(evendb_merge_operator_create("evendb.mine", NULL, join, NULL, NULL, NULL, &join_by, E),
       EVENDB_INVALID_ARGUMENT);
    IS(evendb_merge_operator_create("", NULL, join, NULL, NULL, NULL, &join_by, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_merge_operator_create("mine", NULL, NULL, NULL, NULL, NULL, &join_by, E),
       EVENDB_INVALID_ARGUMENT);
    OK(evendb_merge_operator_create("join", context(), join, NULL, no_spaces, count_destroyed, &join_by, E));
    keyspace = with(db, "joined", join_by);
    /* The handle may go before the keyspace and the database. */
    evendb_merge_operator_free(join_by);
    CHECK(destroyed == 0);
    merge(keyspace, "k", "a");
    merge(keyspace, "k", "b");
    CHECK(holds(keyspace, "k", "a,b"));
    put(keyspace, "k", "");
    merge(keyspace, "k", "c");
    CHECK(holds(keyspace, "k", "c"));
    OK(evendb_flush(db, E));
    merge(keyspace, "k", "");
    OK(evendb_compact(db, NULL, E));
    CHECK(holds(keyspace, "k", "c,"));
    IS(evendb_merge(keyspace, T("k"), T("with space"), E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_put(keyspace, T("k"), T("with space"), E), EVENDB_INVALID_ARGUMENT);
    merge(keyspace, "fail", "a");
    CHECK(evendb_get(keyspace, T("fail"), &value, &error) == EVENDB_MERGE_FAILED);
    CHECK(value == NULL && strstr(evendb_error_message(error), "planted") != NULL);
    evendb_error_free(error);
    CHECK(holds(keyspace, "k", "c,"));
    OK(evendb_transaction_begin(db, &transaction, E));
    OK(evendb_transaction_merge(transaction, keyspace, T("k"), T("d"), E));
    OK(evendb_transaction_commit(transaction, E));
    evendb_transaction_free(transaction);
    CHECK(holds(keyspace, "k", "c,,d"));

    OK(evendb_merge_operator_create("last", context(), last, last_of_operands, NULL, count_destroyed,
                                    &last_by, E));
    lasts = with(db, "lasts", last_by);
    for (int number = 0; number < 500; number++) {
        char operand[16];
        sprintf(operand, "%d", number);
        merge(lasts, "k", operand);
    }
    CHECK(holds(lasts, "k", "499"));
    merge(lasts, "k", "none");
    CHECK(holds(lasts, "k", NULL));

    OK(evendb_merge_operator_ready("evendb.append", &add, E));
    sums = with(db, "appended", add);
    merge(sums, "k", "a");
    merge(sums, "k", "b");
    CHECK(holds(sums, "k", "ab"));
    evendb_merge_operator_free(add);
    evendb_merge_operator_free(NULL);
    IS(evendb_merge_operator_ready("append", &add, E), EVENDB_INVALID_ARGUMENT);

    /* Filters: replaced by another one, which frees the first context. */
    OK(evendb_keyspace_set_compaction_filter(sums, filter, context(), count_destroyed, E));
    OK(evendb_keyspace_set_compaction_filter(sums, filter, context(), count_destroyed, E));
    CHECK(destroyed == 1);
    put(sums, "1", "keep");
    put(sums, "2", "drop");
    put(sums, "3", "replace");
    put(sums, "4", "odd");
    OK(evendb_keyspace_compact(sums, EVERYTHING, NULL, E));
    CHECK(holds(sums, "1", "keep") && holds(sums, "2", NULL));
    CHECK(holds(sums, "3", "replaced") && holds(sums, "4", "odd"));
    OK(evendb_keyspace_set_compaction_filter(sums, NULL, NULL, NULL, E));
    CHECK(destroyed == 2);
    /* A call that is refused frees the context, too. */
    IS(evendb_keyspace_set_compaction_filter(NULL, filter, context(), count_destroyed, E),
        EVENDB_INVALID_ARGUMENT);
    CHECK(destroyed == 3);

    evendb_keyspace_free(keyspace);
    evendb_keyspace_free(lasts);
    evendb_keyspace_free(sums);
    OK(evendb_close(db, E));
    evendb_free(db);
    CHECK(destroyed == 4);
    evendb_merge_operator_free(last_by);
    CHECK(destroyed == 5);

    /* Without the operator the keyspace does not open. */
    db = opened(path);
    IS(evendb_keyspace_open(db, "joined", NULL, &keyspace, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
