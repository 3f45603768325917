/* The library is loaded, used and unloaded in a thread that then ends; and all of it again. Its third
 * argument is the library. It is not linked to it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *library, *path;

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition);                     \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* A function, whose address is no object to ISO C. */
#define FUNCTION(handle, type, name)                                                       \
    type name;                                                                             \
    do {                                                                                   \
        void *symbol = dlsym(handle, #name);                                               \
        CHECK(symbol != NULL);                                                             \
        memcpy(&name, &symbol, sizeof symbol);                                             \
    } while (0)

static void *uses(void *closes) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    typedef int32_t (*open_type)(const char *, void *, void **, void **);
    typedef int32_t (*default_type)(void *, void **, void **);
    typedef int32_t (*put_type)(void *, const void *, size_t, const void *, size_t, void **);
    typedef int32_t (*close_type)(void *, void **);
    typedef void (*free_type)(void *);
    FUNCTION(handle, open_type, evendb_open);
    FUNCTION(handle, default_type, evendb_default_keyspace);
    FUNCTION(handle, put_type, evendb_put);
    FUNCTION(handle, close_type, evendb_close);
    FUNCTION(handle, free_type, evendb_keyspace_free);
    FUNCTION(handle, free_type, evendb_free);
    void *db, *keyspace;
    char place[4096];
    sprintf(place, "%s%d", path, *(int *)closes);
    CHECK(evendb_open(place, NULL, &db, NULL) == 0);
    CHECK(evendb_default_keyspace(db, &keyspace, NULL) == 0);
    CHECK(evendb_put(keyspace, "a", 1, "1", 1, NULL) == 0);
    if (*(int *)closes) {
        CHECK(evendb_close(db, NULL) == 0);
        evendb_keyspace_free(keyspace);
        evendb_free(db);
    }
    CHECK(dlclose(handle) == 0);
    /* This thread's destructors run now, behind the unloading. */
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    char place[4000];
    int closes[] = {1, 0, 1};
    snprintf(place, sizeof place, "%s/db", arguments[1]);
    path = place;
    library = arguments[3];
    /* Also where no thread has left a destructor behind, for which loaders keep a library by themselves,
     * it stays where it is. */
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL && dlsym(handle, "evendb_abi_version") != NULL);
    CHECK(dlclose(handle) == 0);
    CHECK(dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) == handle);
    CHECK(dlclose(handle) == 0);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, uses, &closes[round]) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        /* The second round leaves threads of the store behind. */
        usleep(20000);
    }
    puts("all of it");
    return 0;
}
