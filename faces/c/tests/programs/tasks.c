/* Calls with callbacks. A callback comes exactly once: it frees its context, so that a second one,
 * or a use of the context after it, is an error of the sanitizer. */
#include "check.h"
#include <pthread.h>

enum { KEYS = 200, ROUNDS = 20000, THREADS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static uint64_t called, cancelled, found;
static evendb_db *db;
static evendb_keyspace *keyspace;
static pthread_t main_thread;

/* The context of one call. */
typedef struct {
    /* What is expected: a status and a text, or a text or EVENDB_CANCELLED. */
    evendb_status status;
    const char *text;
    int may_be_cancelled;
    /* Freed by the callback. */
    evendb_task **task;
    /* 1 if the callback came in the thread of main. */
    int *in_main;
} wanted;

static void done(void *context, evendb_status status, evendb_value *value, evendb_error *error) {
    wanted *of = context;
    CHECK((error == NULL) == (status == EVENDB_OK));
    CHECK(evendb_error_code(error) == status);
    if (of->may_be_cancelled && status == EVENDB_CANCELLED) {
        CHECK(value == NULL && strlen(evendb_error_message(error)) > 10);
    } else {
        CHECK(status == of->status);
        CHECK(value_is(value, of->text));
    }
    evendb_error_free(error);
    if (of->task != NULL) {
        evendb_task_free(*of->task);
        *of->task = NULL;
    }
    if (of->in_main != NULL) {
        *of->in_main = pthread_equal(pthread_self(), main_thread) != 0;
    }
    free(of);
    CHECK(pthread_mutex_lock(&lock) == 0);
    called++;
    cancelled += status == EVENDB_CANCELLED;
    found += status == EVENDB_OK;
    CHECK(pthread_cond_broadcast(&more) == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

static wanted *want(evendb_status status, const char *text) {
    wanted *of = calloc(1, sizeof *of);
    CHECK(of != NULL);
    of->status = status;
    of->text = text;
    return of;
}

/* Waits until this number of callbacks has come since the last wait, and sees that no more did. */
static void wait_for(uint64_t number) {
    CHECK(pthread_mutex_lock(&lock) == 0);
    while (called < number) {
        CHECK(pthread_cond_wait(&more, &lock) == 0);
    }
    CHECK(called == number);
    called = cancelled = found = 0;
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

static uint64_t now(void) {
    CHECK(pthread_mutex_lock(&lock) == 0);
    uint64_t number = called;
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return number;
}

/* A database whose gets of older records read files. */
static void open_db(const char *path, const char *workers) {
    evendb_options *options;
    OK(evendb_options_create(&options, E));
    OK(evendb_options_set(options, "layout", layout_, E));
    OK(evendb_options_set(options, "memory_budget", "16MiB", E));
    OK(evendb_options_set(options, "munks", "off", E));
    OK(evendb_options_set(options, "workers", workers, E));
    OK(evendb_options_set(options, "row_cache", "off", E));
    OK(evendb_open(path, options, &db, E));
    evendb_options_free(options);
    keyspace = default_of(db);
    for (int number = 0; number < KEYS; number++) {
        char key[16];
        sprintf(key, "%d", number);
        put(keyspace, key, "old");
    }
    OK(evendb_flush(db, E));
    OK(evendb_settle_debt(db, E));
}

static void gets(void) {
    evendb_task *task;
    int in_main = 0;
    wanted *of = want(EVENDB_OK, "1");
    put(keyspace, "new", "1");
    /* An answer from memory comes in the call. */
    of->in_main = &in_main;
    OK(evendb_get_async(keyspace, T("new"), done, of, NULL, E));
    CHECK(now() == 1 && in_main == 1);
    wait_for(1);
    OK(evendb_get_async(keyspace, T("new"), done, want(EVENDB_OK, "1"), &task, E));
    CHECK(now() == 1 && task != NULL);
    evendb_task_free(task);
    wait_for(1);
    /* A callback that frees its own task, in the call. */
    of = want(EVENDB_OK, "1");
    of->task = &task;
    OK(evendb_get_async(keyspace, T("new"), done, of, &task, E));
    CHECK(task == NULL);
    wait_for(1);

    /* What memory does not know comes in a thread of the store, unless that thread is so quick that
     * the call itself sees the answer. */
    do {
        of = want(EVENDB_OK, "old");
        of->in_main = &in_main;
        OK(evendb_get_async(keyspace, T("7"), done, of, NULL, E));
        wait_for(1);
    } while (in_main);
    OK(evendb_get_async(keyspace, T("none"), done, want(EVENDB_OK, NULL), &task, E));
    wait_for(1);
    /* A task that is over is only freed. */
    evendb_task_free(task);
    evendb_task_free(NULL);
    CHECK(now() == 0);
}

static void refused(void) {
    evendb_task *task;
    evendb_batch *batch;
    evendb_transaction *transaction;
    IS(evendb_get_async(NULL, T("k"), done, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    CHECK(task == NULL);
    IS(evendb_get_async(keyspace, T("k"), NULL, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_get_async(keyspace, NULL, 1, done, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_persist_async(NULL, done, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_persist_async(db, NULL, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_batch_commit_async(NULL, done, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_transaction_commit_async(NULL, done, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    /* A commit that did not begin leaves the batch. */
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("left"), T("1"), E));
    IS(evendb_batch_commit_async(batch, NULL, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_batch_commit(batch, E));
    IS(evendb_batch_commit_async(batch, done, NULL, &task, E), EVENDB_USED_UP);
    evendb_batch_free(batch);
    OK(evendb_transaction_begin(db, &transaction, E));
    IS(evendb_transaction_commit_async(transaction, NULL, NULL, &task, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_transaction_commit(transaction, E));
    IS(evendb_transaction_commit_async(transaction, done, NULL, &task, E), EVENDB_USED_UP);
    evendb_transaction_free(transaction);
    CHECK(holds(keyspace, "left", "1") && now() == 0);
}

static void commits(void) {
    evendb_task *task;
    evendb_batch *batch;
    evendb_transaction *transaction, *other;
    evendb_value *value;
    for (int number = 0; number < 50; number++) {
        char text[16];
        sprintf(text, "%d", number);
        OK(evendb_batch_create(db, &batch, E));
        OK(evendb_batch_put(batch, keyspace, T("last"), T(text), E));
        OK(evendb_batch_durability(batch, EVENDB_DURABILITY_SYNC, E));
        OK(evendb_batch_commit_async(batch, done, want(EVENDB_OK, NULL), &task, E));
        evendb_batch_free(batch);
        /* A commit is not called off. */
        evendb_task_free(task);
    }
    OK(evendb_persist_async(db, done, want(EVENDB_OK, NULL), NULL, E));
    OK(evendb_persist_async(db, done, want(EVENDB_OK, NULL), &task, E));
    evendb_task_free(task);
    wait_for(52);
    CHECK(holds(keyspace, "last", "49"));

    OK(evendb_transaction_begin(db, &transaction, E));
    OK(evendb_transaction_begin(db, &other, E));
    OK(evendb_transaction_get(transaction, keyspace, T("last"), &value, E));
    evendb_value_free(value);
    OK(evendb_transaction_get(other, keyspace, T("last"), &value, E));
    evendb_value_free(value);
    OK(evendb_transaction_put(transaction, keyspace, T("last"), T("of one"), E));
    OK(evendb_transaction_put(other, keyspace, T("last"), T("of the other"), E));
    OK(evendb_transaction_commit_async(transaction, done, want(EVENDB_OK, NULL), NULL, E));
    wait_for(1);
    OK(evendb_transaction_commit_async(other, done, want(EVENDB_CONFLICT, NULL), NULL, E));
    wait_for(1);
    IS(evendb_transaction_put(other, keyspace, T("k"), T("v"), E), EVENDB_USED_UP);
    evendb_transaction_free(transaction);
    evendb_transaction_free(other);
    CHECK(holds(keyspace, "last", "of one"));
    /* A failure of the commit itself comes to the callback. */
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_merge(batch, keyspace, T("k"), T("v"), E));
    OK(evendb_batch_commit_async(batch, done, want(EVENDB_INVALID_ARGUMENT, NULL), NULL, E));
    evendb_batch_free(batch);
    wait_for(1);
}

/* Begins reads and frees their tasks at once, or a little later, while readers complete them. */
static void *races(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    evendb_task *tasks[8] = {NULL};
    for (int round = 0; round < ROUNDS / THREADS; round++) {
        char key[16];
        wanted *of = want(EVENDB_OK, "old");
        of->may_be_cancelled = 1;
        random = random * 1103515245 + 12345;
        evendb_task **place = &tasks[(random >> 16) % 8];
        evendb_task_free(*place);
        sprintf(key, "%u", (random >> 8) % KEYS);
        OK(evendb_get_async(keyspace, T(key), done, of, place, E));
        if ((random >> 20) % 2 == 0) {
            evendb_task_free(*place);
            *place = NULL;
        }
    }
    for (int at = 0; at < 8; at++) {
        evendb_task_free(tasks[at]);
    }
    return NULL;
}

static void cancel_against_completion(void) {
    pthread_t threads[THREADS];
    for (size_t thread = 0; thread < THREADS; thread++) {
        CHECK(pthread_create(&threads[thread], NULL, races, (void *)(thread + 1)) == 0);
    }
    for (int thread = 0; thread < THREADS; thread++) {
        CHECK(pthread_join(threads[thread], NULL) == 0);
    }
    CHECK(pthread_mutex_lock(&lock) == 0);
    while (called < ROUNDS) {
        CHECK(pthread_cond_wait(&more, &lock) == 0);
    }
    CHECK(called == ROUNDS && cancelled + found == ROUNDS);
    CHECK(pthread_mutex_unlock(&lock) == 0);
    wait_for(ROUNDS);
}

/* Reads and commits that are under way when the database is closed: each is told, once. */
static evendb_status any_of_close[] = {EVENDB_OK, EVENDB_CLOSED};

static void at_close(void *context, evendb_status status, evendb_value *value, evendb_error *error) {
    CHECK(status == any_of_close[0] || status == any_of_close[1]);
    evendb_value_free(value);
    evendb_error_free(error);
    free(context);
    CHECK(pthread_mutex_lock(&lock) == 0);
    called++;
    CHECK(pthread_cond_broadcast(&more) == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

static void closed_under_way(void) {
    evendb_batch *batch;
    for (int number = 0; number < 100; number++) {
        char key[16];
        sprintf(key, "%d", number);
        OK(evendb_get_async(keyspace, T(key), at_close, malloc(1), NULL, E));
        OK(evendb_batch_create(db, &batch, E));
        OK(evendb_batch_put(batch, keyspace, T(key), T("late"), E));
        OK(evendb_batch_durability(batch, EVENDB_DURABILITY_SYNC, E));
        OK(evendb_batch_commit_async(batch, at_close, malloc(1), NULL, E));
        evendb_batch_free(batch);
    }
    OK(evendb_close(db, E));
    wait_for(200);
    /* After the close the call begins, and its callback says so. */
    OK(evendb_get_async(keyspace, T("7"), done, want(EVENDB_CLOSED, NULL), NULL, E));
    OK(evendb_persist_async(db, done, want(EVENDB_CLOSED, NULL), NULL, E));
    wait_for(2);
}

/* The callback of the last call frees the last handles: the store closes itself. */
static void frees_all(void *context, evendb_status status, evendb_value *value, evendb_error *error) {
    CHECK(status == EVENDB_OK && value_is(value, "old") && error == NULL);
    if (!pthread_equal(pthread_self(), main_thread)) {
        IS(evendb_close(db, E), EVENDB_INVALID_ARGUMENT);
    }
    evendb_keyspace_free(keyspace);
    evendb_free(db);
    done(context, EVENDB_OK, NULL, NULL);
}

/* The last handle is gone while a read is under way: the read keeps the database open. */
static void outlives_its_handles(const char *path) {
    evendb_task *task;
    open_db(path, "auto");
    OK(evendb_get_async(keyspace, T("7"), done, want(EVENDB_OK, "old"), &task, E));
    evendb_keyspace_free(keyspace);
    evendb_free(db);
    wait_for(1);
    evendb_task_free(task);
}

/* A database without threads does all of it in the call. */
static void without_threads(const char *path) {
    evendb_batch *batch;
    evendb_task *task;
    int in_main = 0;
    wanted *of = want(EVENDB_OK, "old");
    open_db(path, "0");
    of->in_main = &in_main;
    OK(evendb_get_async(keyspace, T("7"), done, of, NULL, E));
    CHECK(now() == 1 && in_main == 1);
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("7"), T("new"), E));
    OK(evendb_batch_durability(batch, EVENDB_DURABILITY_SYNC, E));
    OK(evendb_batch_commit_async(batch, done, want(EVENDB_OK, NULL), &task, E));
    evendb_batch_free(batch);
    CHECK(now() == 2);
    OK(evendb_persist_async(db, done, want(EVENDB_OK, NULL), NULL, E));
    CHECK(now() == 3);
    wait_for(3);
    CHECK(holds(keyspace, "7", "new"));
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_task_free(task);
    evendb_free(db);
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    char *path = below(directory, "db"), *second = below(directory, "second");
    evendb_status status;
    main_thread = pthread_self();
    open_db(path, "auto");
    gets();
    refused();
    commits();
    cancel_against_completion();
    closed_under_way();
    evendb_keyspace_free(keyspace);
    evendb_free(db);

    open_db(second, "auto");
    OK(evendb_get_async(keyspace, T("7"), frees_all, want(EVENDB_OK, NULL), NULL, E));
    wait_for(1);
    do {
        status = evendb_open(second, NULL, &db, NULL);
    } while (status == EVENDB_LOCKED);
    CHECK(status == EVENDB_OK);
    OK(evendb_close(db, E));
    evendb_free(db);
    outlives_its_handles(below(directory, "third"));
    without_threads(below(directory, "fourth"));
    return ended();
}
