/* A verifying load on one block device, through the kernel: threads that write and read blocks of 4 KiB.
 *
 *   load DEVICE THREADS BLOCKS SEED BASE
 *
 * Each block states its number and its version. Versions begin after BASE: older ones are of another load. A thread writes blocks of its own, BLOCKS of them, and reads those of
 * all. A read that begins after the end of a write must not return an older version. Each error and each wrong block is
 * a line `problem ...`. Commands on standard input, each answered with a line: `mark` begins an interval, `report` states
 * counts and the longest time of a command in the interval, `verify` reads every block, `stop` ends the load.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define RUN 16        /* blocks of the longest command */
#define WINDOW 64     /* blocks that a thread writes most of the time */
#define PAUSE_US 1000 /* between two commands of a thread */
#define PROBLEMS 20   /* lines about problems; later ones are only counted */

struct worker {
    pthread_t thread;
    uint64_t number, random;
    _Atomic uint64_t begun;   /* microseconds, 0 if no command is open */
    _Atomic uint64_t longest; /* microseconds, since the mark */
    _Atomic uint64_t answered;
};

static int device, threads;
static uint64_t blocks, base;
static _Atomic uint64_t *newest, *oldest; /* of each block: the version sent last, and the oldest that a read may return */
static _Atomic uint64_t writes, reads, errors, wrong, marked;
static _Atomic int ending;
static struct worker *workers;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

static uint64_t chance(struct worker *w, uint64_t below)
{
    w->random ^= w->random << 13, w->random ^= w->random >> 7, w->random ^= w->random << 17;
    return w->random % below;
}

static void say(const char *text)
{
    pthread_mutex_lock(&printing);
    puts(text);
    fflush(stdout);
    pthread_mutex_unlock(&printing);
}

static void problem(const char *text)
{
    char line[300];
    if (errors + wrong > PROBLEMS)
        return;
    snprintf(line, sizeof line, "problem %s", text);
    say(line);
}

static void stamp(uint64_t *words, uint64_t block, uint64_t version)
{
    for (int n = 0; n < BLOCK / 8; n += 4)
        words[n] = block, words[n + 1] = version, words[n + 2] = block ^ version, words[n + 3] = ~version;
}

/* Checks a block that was read; `floor` is the oldest version that was allowed when the read began. */
static void check(const uint64_t *words, uint64_t block, uint64_t floor)
{
    static const uint64_t zeros[BLOCK / 8];
    uint64_t expected[BLOCK / 8], version = words[1], ceiling;
    char text[200];
    if (memcmp(words, zeros, BLOCK) == 0)
        version = 0;
    else
        stamp(expected, block, version);
    ceiling = newest[block];
    if (version <= base)
        version = 0;
    if (version && memcmp(words, expected, BLOCK) != 0)
        snprintf(text, sizeof text, "block %lu is torn or another one: it begins with %lu %lu, its half with %lu %lu", block,
                 words[0], words[1], words[BLOCK / 16], words[BLOCK / 16 + 1]);
    else if (version < floor || version > ceiling)
        snprintf(text, sizeof text, "block %lu has version %lu; allowed are %lu to %lu", block, version, floor, ceiling);
    else {
        for (uint64_t old = floor; old < version && !atomic_compare_exchange_weak(&oldest[block], &old, version);)
            ;
        return;
    }
    wrong++;
    problem(text);
}

static void failed(const char *what, uint64_t block, ssize_t count, int code)
{
    char text[200];
    errors++;
    snprintf(text, sizeof text, "%s of block %lu: %s", what, block, count < 0 ? strerror(code) : "short");
    problem(text);
}

static void done(struct worker *w)
{
    uint64_t begun = w->begun, mark = marked, end = now();
    uint64_t took = end - (begun > mark ? begun : mark);
    if (end > mark && took > w->longest)
        w->longest = took;
    w->begun = 0;
    w->answered = begun;
}

static uint64_t pick(struct worker *w, uint64_t owner)
{
    return owner * blocks + (chance(w, 4) ? chance(w, WINDOW) : chance(w, blocks));
}

static void write_blocks(struct worker *w, uint64_t *data)
{
    uint64_t first = pick(w, w->number), count = chance(w, 4) ? 1 : 1 + chance(w, RUN), end = (w->number + 1) * blocks;
    if (first + count > end)
        count = end - first;
    for (uint64_t n = 0; n < count; n++) {
        newest[first + n] = newest[first + n] ? newest[first + n] + 1 : base + 1;
        stamp(data + n * BLOCK / 8, first + n, newest[first + n]);
    }
    w->begun = now();
    ssize_t sent = pwrite(device, data, count * BLOCK, first * BLOCK);
    int code = errno;
    done(w);
    if (sent != (ssize_t)(count * BLOCK)) {
        failed("write", first, sent, code);
        return;
    }
    for (uint64_t n = 0; n < count; n++)
        oldest[first + n] = newest[first + n];
    writes++;
}

static void read_block(struct worker *w, uint64_t block, uint64_t *data)
{
    uint64_t floor = oldest[block];
    w->begun = now();
    ssize_t got = pread(device, data, BLOCK, block * BLOCK);
    int code = errno;
    done(w);
    if (got != BLOCK) {
        failed("read", block, got, code);
        return;
    }
    check(data, block, floor);
    reads++;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    uint64_t *data = aligned_alloc(BLOCK, BLOCK * RUN);
    while (!ending) {
        if (chance(w, 10) < 6)
            write_blocks(w, data);
        else
            read_block(w, pick(w, chance(w, threads)), data);
        usleep(PAUSE_US);
    }
    free(data);
    return NULL;
}

static void report(void)
{
    uint64_t longest = 0, first = ~0ull, end = now();
    char line[300];
    for (int n = 0; n < threads; n++) {
        struct worker *w = &workers[n];
        /* A command may have begun, or ended, since `end` was read. */
        uint64_t begun = w->begun, from = begun > marked ? begun : marked, open = begun && from < end ? end - from : 0;
        if (w->longest > longest)
            longest = w->longest;
        if (open > longest)
            longest = open;
        if (w->answered < first)
            first = w->answered;
    }
    /* `quiet`: the age of the oldest last command; each thread has begun, and ended, one since then. */
    snprintf(line, sizeof line, "report writes=%lu reads=%lu errors=%lu wrong=%lu longest=%lu quiet=%lu", writes, reads,
             errors, wrong, longest, first < end ? end - first : 0);
    say(line);
}

static void verify(void)
{
    uint64_t *data = aligned_alloc(BLOCK, BLOCK * RUN), floors[RUN], count = 0, all = threads * blocks;
    char line[100];
    for (uint64_t first = 0; first < all; first += RUN) {
        uint64_t some = 0, length = first + RUN < all ? RUN : all - first;
        for (uint64_t n = 0; n < length; n++)
            floors[n] = oldest[first + n], some += newest[first + n] != 0;
        if (!some)
            continue;
        ssize_t got = pread(device, data, length * BLOCK, first * BLOCK);
        if (got != (ssize_t)(length * BLOCK)) {
            failed("read", first, got, errno);
            continue;
        }
        for (uint64_t n = 0; n < length; n++)
            check(data + n * BLOCK / 8, first + n, floors[n]);
        count += some;
    }
    free(data);
    snprintf(line, sizeof line, "verified blocks=%lu", count);
    say(line);
}

int main(int count, char **words)
{
    char line[100];
    if (count != 6)
        return 2;
    threads = atoi(words[2]), blocks = strtoull(words[3], NULL, 10), base = strtoull(words[5], NULL, 10);
    device = open(words[1], O_RDWR | O_DIRECT);
    if (device < 0 || threads < 1 || blocks < WINDOW) {
        perror(words[1]);
        return 1;
    }
    newest = calloc(threads * blocks, sizeof *newest);
    oldest = calloc(threads * blocks, sizeof *oldest);
    workers = calloc(threads, sizeof *workers);
    marked = now();
    for (int n = 0; n < threads; n++) {
        workers[n].number = n;
        workers[n].random = (strtoull(words[4], NULL, 10) + 1) * 0x9E3779B97F4A7C15ull + n * 0xD1B54A32D192ED03ull + 1;
        pthread_create(&workers[n].thread, NULL, work, &workers[n]);
    }
    say("started");
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "mark\n")) {
            marked = now();
            for (int n = 0; n < threads; n++)
                workers[n].longest = 0;
            say("marked");
        } else if (!strcmp(line, "report\n"))
            report();
        else if (!strcmp(line, "verify\n"))
            verify();
        else if (!strcmp(line, "stop\n"))
            break;
    }
    ending = 1;
    for (int n = 0; n < threads; n++)
        pthread_join(workers[n].thread, NULL);
    report();
    return 0;
}
