/*
 * The write-ahead log's hand-over to segments, as storage/DESIGN.md has it: one log, whose n-th append is round n; rounds that carry their bytes and
 * rounds whose bytes go straight to the segment; flushes beside them; crashes at any point, in a recovery too. ../../storage is the code.
 *
 * The disk: what is written is in a cache, which a sync makes durable; a crash keeps or loses each unsynced write for itself. The checkpoint is replaced
 * atomically. A round is one slot of a write-ahead file, there or torn.
 *
 * Properties:
 *   - what was acknowledged, or recovered by a start that has finished, is there after each crash, at its offset;
 *   - what is recovered is the state as of exactly one round: nothing of a later one, nothing stale;
 *   - a crash never makes the store refuse to open (damage: a round is missing that was said to be synced).
 *
 * Each of the mutations (MUT_...) breaks one rule, and run.sh checks that the model then fails.
 */
#ifndef R
#define R 4     /* rounds; and offsets */
#endif
#ifndef FILES
#define FILES 3 /* write-ahead files */
#endif
#ifndef S
#define S 1     /* rounds that fit a file */
#endif
#ifndef C
#define C 2     /* crashes */
#endif
#ifndef V
#define V 5     /* values */
#endif
#define SLOTS (FILES * S)
#define NOFILE 7

/* A slot: what is in the cache (c) and on the disk (d). */
typedef Slot {
  byte cGen, cRound, cSynced, cValue; bit cDirect;
  byte dGen, dRound, dSynced, dValue; bit dDirect;
  bit dirty
};
Slot wal[SLOTS];
byte cSeg[R], dSeg[R]; /* the segment by offset; 0: nothing */
bit segDirty[R];
byte ckRound, ckEnd, ckGen = 1; /* the checkpoint: covered rounds, the log's end as of its capture, generation */

/* What must never go: values by offset; the first acked are acknowledged. */
byte acked, promised[R];

/* The running store. */
byte mem[R], end, gen, synced, values, crashes;
byte file = NOFILE, slot;                 /* the current write-ahead file, and the next slot in it */
bit free[FILES]; byte last[FILES];        /* newest round in a file; 0: none */
mtype = { idle, written, walSynced, segSynced, captured, segWritten, flushSynced, scan, settle };
mtype commit = idle, flush = scan;        /* flush is scan: the store isn't open yet */
byte covered, seq, flushed;               /* of the flush under way; flushed: what earlier ones and direct writes brought to the segment */
bit direct; byte at;                      /* of the round under way */


hidden byte i_, n_, o_, top_;

inline syncFile(f) {
  i_ = f * S;
  do
  :: i_ < (f + 1) * S ->
    wal[i_].dGen = wal[i_].cGen; wal[i_].dRound = wal[i_].cRound; wal[i_].dSynced = wal[i_].cSynced;
    wal[i_].dValue = wal[i_].cValue; wal[i_].dDirect = wal[i_].cDirect; wal[i_].dirty = 0;
    i_++
  :: else -> break
  od
}

inline syncSegment() {
  i_ = 0;
  do :: i_ < R -> dSeg[i_] = cSeg[i_]; segDirty[i_] = 0; i_++ :: else -> break od
}

inline writeSegment(o, v) { cSeg[o] = v; segDirty[o] = 1 }

inline acknowledge(to) {
  do :: acked < to -> promised[acked] = mem[acked]; acked++ :: else -> break od;
  skip
}

inline recycle() {
  i_ = 0;
  do
  :: i_ < FILES ->
    if :: i_ != file && !free[i_] && last[i_] <= covered -> free[i_] = 1; last[i_] = 0 :: else fi;
    i_++
  :: else -> break
  od;
  skip
}

/* FOUND is whether slot i_ holds round n. */
#ifdef MUT_ANY_GENERATION
#define OFGEN(i) (wal[i].dGen != 0)
#else
#define OFGEN(i) (wal[i].dGen == ckGen)
#endif
#define FOUND(i, n) (OFGEN(i) && wal[i].dRound == (n))

/* replay is recover.go's steps 1 to 3, and what must come of them. */
inline replay() {
  end = 0;
  do :: end < ckEnd -> mem[end] = dSeg[end]; end++ :: else -> break od;
  i_ = 0; top_ = 0;
  do
  :: i_ < SLOTS -> if :: OFGEN(i_) && wal[i_].dSynced > top_ -> top_ = wal[i_].dSynced :: else fi; i_++
  :: else -> break
  od;
  n_ = ckRound + 1; o_ = 1;
  do
  :: o_ ->
    i_ = 0;
    do :: i_ < SLOTS && !FOUND(i_, n_) -> i_++ :: else -> break od;
    if
    :: i_ == SLOTS -> o_ = 0
    :: i_ < SLOTS && n_ <= end -> n_++ /* a frame that the checkpoint's entry contains */
    :: i_ < SLOTS && n_ > end && wal[i_].dDirect ->
      if
#ifndef MUT_TRUST_DIRECT
      :: dSeg[n_ - 1] != wal[i_].dValue -> assert(n_ > top_); o_ = 0 /* bytes are missing: torn, or damage */
#endif
      :: else -> mem[n_ - 1] = dSeg[n_ - 1]; assert(mem[n_ - 1] == wal[i_].dValue); end = n_; n_++
      fi
    :: i_ < SLOTS && n_ > end && !wal[i_].dDirect -> mem[n_ - 1] = wal[i_].dValue; end = n_; n_++
    fi
  :: else -> break
  od;
  n_--;
  assert(n_ >= top_);  /* the store opens */
  assert(n_ == end);   /* the state as of one round */
  i_ = 0;
  do :: i_ < acked -> assert(i_ < end && mem[i_] == promised[i_]); i_++ :: else -> break od;
  synced = n_; covered = n_; seq = end
}

/* forget is what the end of the process forgets. */
inline forget() {
  i_ = 0;
  do :: i_ < R -> mem[i_] = 0; i_++ :: else -> break od;
  i_ = 0;
  do :: i_ < FILES -> free[i_] = 0; last[i_] = 0; i_++ :: else -> break od;
  end = 0; gen = 0; synced = 0; file = NOFILE; slot = 0; commit = idle; flush = scan; covered = 0; seq = 0; flushed = 0; direct = 0; at = 0
}

#ifdef MUT_CAPTURE_UNSYNCED
#define CAPTURESYNCED 1
#else
#define CAPTURESYNCED (seq <= synced)
#endif
/* TAKE takes a free file for the next round, which needs one. */
#define NEEDSFILE (file == NOFILE || slot == S)
#define TAKE(f) :: d_step { flush != scan && flush != settle && commit == idle && NEEDSFILE && free[f] -> free[f] = 0; file = f; slot = 0 }

proctype store() {
  do
  TAKE(0) TAKE(1) TAKE(2)
  /* A round is written, its batch to the write-ahead log ... */
  :: d_step { flush != scan && flush != settle && commit == idle && !NEEDSFILE && end < R && values < V ->
      values++; mem[end] = values; end++; at = file * S + slot; slot++; last[file] = end; direct = 0;
      wal[at].cGen = gen; wal[at].cRound = end; wal[at].cSynced = synced; wal[at].cValue = values; wal[at].cDirect = 0; wal[at].dirty = 1;
      commit = written
    }
  /* ... or straight to its segment, with all before it that only the write-ahead log has. */
  :: d_step { flush != scan && flush != settle && commit == idle && !NEEDSFILE && end < R && values < V ->
      values++; mem[end] = values; end++; at = file * S + slot; slot++; last[file] = end; direct = 1;
      i_ = flushed;
      do :: i_ < end -> writeSegment(i_, mem[i_]); i_++ :: else -> break od;
      wal[at].cGen = gen; wal[at].cRound = end; wal[at].cSynced = synced; wal[at].cValue = values; wal[at].cDirect = 1; wal[at].dirty = 1;
      commit = written
    }
  /* The two syncs, in any order; only then the round is complete. */
  :: d_step { commit == written && direct -> syncFile(file); commit = walSynced }
  :: d_step { commit == written && direct -> syncSegment(); commit = segSynced }
  :: d_step { commit == written && !direct -> syncFile(file); commit = idle; at = 0; synced = end; acknowledge(end) }
#ifdef MUT_SKIP_DIRECT_SYNC
  :: d_step { commit == walSynced -> commit = idle; at = 0; direct = 0; synced = end; if :: flushed < end -> flushed = end :: else fi; acknowledge(end) }
#else
  :: d_step { commit == walSynced -> syncSegment(); commit = idle; at = 0; direct = 0; synced = end; if :: flushed < end -> flushed = end :: else fi; acknowledge(end) }
#endif
  :: d_step { commit == segSynced -> syncFile(file); commit = idle; at = 0; direct = 0; synced = end; if :: flushed < end -> flushed = end :: else fi; acknowledge(end) }
#ifdef MUT_ACK_EARLY
  :: d_step { commit == written -> acknowledge(end) }
#endif

  /* Flush (flush.go): the open round is noted; a round may be under way. */
  :: d_step { flush == idle && end > 0 ->
      covered = (commit == idle -> end : end - 1);
      flush = captured; seq = 0
    }
  /* The log is captured, a round or more later. */
  :: d_step { flush == captured && seq == 0 -> seq = end }
  /* Every captured frame is durable before its bytes are written. */
  :: d_step { flush == captured && seq > 0 && CAPTURESYNCED ->
      i_ = 0;
      do :: i_ < seq -> if :: i_ >= flushed -> writeSegment(i_, mem[i_]) :: else fi; i_++ :: else -> break od;
      flush = segWritten
    }
#ifdef MUT_SKIP_SEGMENT_SYNC
  :: d_step { flush == segWritten -> flush = flushSynced }
#else
  :: d_step { flush == segWritten -> syncSegment(); flush = flushSynced }
#endif
#ifdef MUT_RECYCLE_EARLY
  :: d_step { flush == segWritten || flush == flushSynced -> recycle() }
#endif
  :: d_step { flush == flushSynced ->
#ifdef MUT_COVER_LATER
      covered = synced; /* as of the checkpoint, not of the capture */
#endif
      ckRound = covered; ckEnd = seq;
      if :: flushed < seq -> flushed = seq :: else fi;
      recycle();
      flush = idle; covered = 0; seq = 0
    }

  /* A start: the old rounds, then a flush of what they brought, then a checkpoint of a new generation; only then files are free. */
  :: d_step { flush == scan && gen == 0 -> replay(); gen = ckGen + 1 }
  :: d_step { flush == scan && gen != 0 ->
      i_ = ckEnd;
      do :: i_ < end -> writeSegment(i_, mem[i_]); i_++ :: else -> break od;
      flush = settle
    }
  :: d_step { flush == settle ->
#ifndef MUT_SKIP_SETTLE_SYNC
      syncSegment();
#endif
      ckRound = covered; ckEnd = seq;
#ifdef MUT_SAME_GENERATION
      gen = ckGen;
#endif
      ckGen = gen;
      acknowledge(end);
      flushed = end;
      i_ = 0;
      do :: i_ < FILES -> free[i_] = 1; last[i_] = 0; i_++ :: else -> break od;
      flush = idle; covered = 0; seq = 0
    }

  /* A crash: each unsynced write is there or not. */
  :: atomic { crashes < C && (gen != 0) ->
      crashes++;
      o_ = 0;
      do
      :: o_ < SLOTS && wal[o_].dirty ->
        if
        :: wal[o_].dGen = wal[o_].cGen; wal[o_].dRound = wal[o_].cRound; wal[o_].dSynced = wal[o_].cSynced; wal[o_].dValue = wal[o_].cValue; wal[o_].dDirect = wal[o_].cDirect
        :: wal[o_].dGen = 0; wal[o_].dRound = 0; wal[o_].dSynced = 0; wal[o_].dValue = 0; wal[o_].dDirect = 0 /* torn */
        :: skip
        fi;
        wal[o_].cGen = wal[o_].dGen; wal[o_].cRound = wal[o_].dRound; wal[o_].cSynced = wal[o_].dSynced; wal[o_].cValue = wal[o_].dValue; wal[o_].cDirect = wal[o_].dDirect;
        wal[o_].dirty = 0;
        o_++
      :: o_ < SLOTS && !wal[o_].dirty -> o_++
      :: else -> break
      od;
      o_ = 0;
      do
      :: o_ < R && segDirty[o_] -> if :: dSeg[o_] = cSeg[o_] :: skip fi; cSeg[o_] = dSeg[o_]; segDirty[o_] = 0; o_++
      :: o_ < R && !segDirty[o_] -> o_++
      :: else -> break
      od;
      d_step { forget() }
    }
  od
}

init { atomic { run store() } }
