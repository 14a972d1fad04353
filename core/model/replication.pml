/*
 * One partition on N replicas, as REPLICATION.md has it: appends, syncs, fetches, truncation by epoch, changes of the in-sync set,
 * elections, crashes that lose what wasn't synced. ../replica and ../meta are the code; names are theirs.
 *
 * A log is a list of entries; an entry is 8 * leader epoch + value, and values are used once. What isn't modelled: the raft group (the
 * metadata is one truth that can't fail, heard of late), time (a follower may lag, a session may end, at any moment), retention, batches.
 *
 * Properties, asserted where they might break:
 *   - what has been below a leader's high watermark (so: acknowledged, or seen by a consumer) stays what it is, at its offset;
 *   - whoever leads has all of it, on its disk;
 *   - nobody acts as leader in another's epoch.
 *
 * Bounds: N replicas, L offsets, E epochs, V values, C crashes, F fencings of nodes that live. Each of the mutations (MUT_...) breaks one rule, and run.sh
 * checks that the model then fails.
 */
#ifndef N
#define N 3
#endif
#ifndef L
#define L 2
#endif
#ifndef E
#define E 3
#endif
#ifndef V
#define V 2
#endif
#ifndef C
#define C 2
#endif
#ifndef F
#define F 1
#endif

#define NONE 7
#define EPOCH(entry) ((entry) >> 3)
#define IN(set, i) (((set) >> (i)) & 1)
#define BIT(i) (1 << (i))
#define ALL (BIT(N) - 1)

/* The truth: what meta.Image has. */
byte lead, epoch = 1, isr = ALL, alive = ALL; /* alive: the active brokers */
byte values, crashes, fencings;
byte committed[L];     /* what was below a leader's high watermark */
byte actor[E + 1];     /* who acted as leader in an epoch, + 1 */

typedef Replica {
  bit up;
  byte log[L], end;    /* memory: what is served and fetched */
  byte disk[L], saved; /* what a crash leaves: memory as of the last sync */
  byte durable;        /* so much of log is on disk */
  byte hw;
  /* The newest assignment that it has heard of. */
  byte lead, epoch, isr;
  bit fresh;           /* nothing has changed since: stands for the partition epoch */
  /* Leading. */
  byte start;          /* end when the epoch began */
  byte said[N];        /* durable end of each follower, + 1; 0: has not asked in this epoch */
  byte wish;           /* in-sync set asked for; 0: none */
  /* The proposal of a wish, under way. */
  byte want, wantEpoch;
  bit wantFresh;
  /* A fetch under way: kind 0 none, 1 question, 2 answer: entry (or none), 3 answer: diverging. */
  byte kind, askEpoch, askNext, askLast, askDurable;
  byte entry, divEpoch, divEnd, answerHW
};
Replica r[N];

/* Of a step alone, no part of the state. */
hidden byte i_, j_, k_, e_, t_, d_, o_;

#define LEADS(me) (r[me].up && r[me].lead == me)
#define FOLLOWS(me) (r[me].up && r[me].lead != me && r[me].lead != NONE)

/* LAST is the epoch of the newest entry; 0: the log is empty. */
#define LAST(me) (r[me].end == 0 -> 0 : EPOCH(r[me].log[r[me].end - 1]))

/* endOfEpoch gives the newest epoch that is not above e, and where it ends, in t_ and d_. */
inline endOfEpoch(me, e) {
  t_ = 0; d_ = 0; o_ = 0;
  do
  :: o_ < r[me].end && EPOCH(r[me].log[o_]) <= e -> t_ = EPOCH(r[me].log[o_]); o_++; d_ = o_
  :: else -> break
  od
}

/* check is the second property. */
inline check() {
  if
  :: lead != NONE ->
    o_ = 0;
    do
    :: o_ < L ->
      assert(committed[o_] == 0 || (r[lead].durable > o_ && r[lead].log[o_] == committed[o_]));
      o_++
    :: else -> break
    od
  :: else
  fi
}

/* changed: everybody's assignment is old, and so is what was proposed on it. */
inline changed() {
  i_ = 0;
  do
  :: i_ < N -> r[i_].fresh = 0; r[i_].wantFresh = 0; i_++
  :: else -> break
  od;
  check()
}

inline raise(me) {
#ifdef MUT_ACK_AT_END
  e_ = r[me].end;
#else
  e_ = r[me].durable;
#endif
#ifdef MUT_TRUST_OLD_ISR
  t_ = r[me].isr;
#else
  t_ = r[me].isr | r[me].wish;
#endif
  j_ = 0;
  do
  :: j_ < N ->
    if
    :: j_ != me && IN(t_, j_) && r[me].said[j_] == 0 -> e_ = 0
    :: j_ != me && IN(t_, j_) && r[me].said[j_] != 0 && r[me].said[j_] - 1 < e_ -> e_ = r[me].said[j_] - 1
    :: else
    fi;
    j_++
  :: else -> break
  od;
#ifdef MUT_SERVE_AT_END
  e_ = r[me].end;
#endif
  do
  :: r[me].hw < e_ ->
    assert(committed[r[me].hw] == 0 || committed[r[me].hw] == r[me].log[r[me].hw]);
    committed[r[me].hw] = r[me].log[r[me].hw];
    r[me].hw++
  :: else -> break
  od;
  check()
}

/* cut truncates to e: memory at once, the disk with the next sync. */
inline cut(me, e) {
  do
  :: r[me].end > e -> r[me].end--; r[me].log[r[me].end] = 0
  :: else -> break
  od;
  if :: r[me].durable > e -> r[me].durable = e :: else fi;
  if :: r[me].hw > e -> r[me].hw = e :: else fi
}

inline stopLeading(me) {
  j_ = 0;
  do :: j_ < N -> r[me].said[j_] = 0; j_++ :: else -> break od;
  r[me].start = 0; r[me].wish = 0
}

inline dropFetch(me) {
  r[me].kind = 0; r[me].askEpoch = 0; r[me].askNext = 0; r[me].askLast = 0; r[me].askDurable = 0;
  r[me].entry = 0; r[me].divEpoch = 0; r[me].divEnd = 0; r[me].answerHW = 0
}

/* goOut is meta's leave; who is elected is anyone who may be (the code takes the first). */
inline goOut(me, next) {
  alive = alive & ~BIT(me);
  if
  :: !IN(isr, me)
  :: IN(isr, me) && lead != me && lead != NONE -> isr = isr & ~BIT(me); changed()
  :: IN(isr, me) && lead == NONE
  :: IN(isr, me) && lead == me ->
    if
    :: next == NONE -> skip
#ifdef MUT_UNCLEAN
    :: next != NONE -> isr = BIT(next)
#else
    :: next != NONE -> isr = isr & ~BIT(me)
#endif
    fi;
    lead = next;
#ifdef MUT_FORGET_EPOCH
    if :: next == NONE -> epoch++ :: else fi;
#else
    epoch++;
#endif
    changed()
  fi
}

/* handOver is meta's, for one that starts with all that it ever reported as durable: it stays in the set. */
inline handOver(me, next) {
  alive = alive & ~BIT(me);
  if
  :: lead == me -> lead = next; epoch++; changed()
  :: else
  fi
}

#ifdef MUT_UNCLEAN
#define MAYLEAD (alive)
#else
#define MAYLEAD (isr & alive)
#endif
/* ELECTABLE: next is whom a goOut of me may make leader: one of the set that is active, NONE only if there is none. */
#define ELECTABLE(me, next) (lead != me || !IN(isr, me) -> next == NONE : epoch < E && \
  (next == NONE -> (MAYLEAD & ~BIT(me)) == 0 : next != me && IN(MAYLEAD, next)))

/* heard is replica.Partition.Assign. */
inline heard(me) {
  if
  :: lead == me && (r[me].lead != me || r[me].epoch != epoch) -> stopLeading(me); r[me].start = r[me].end
  :: lead != me -> stopLeading(me)
  :: else -> r[me].wish = 0
  fi;
  if :: r[me].kind > 1 && r[me].epoch != epoch -> dropFetch(me) :: else fi;
#ifdef MUT_CUT_TO_HW
  if :: lead != me && r[me].epoch != epoch -> cut(me, r[me].hw) :: else fi;
#endif
  r[me].lead = lead; r[me].epoch = epoch; r[me].isr = isr; r[me].fresh = 1;
  if :: lead == me -> raise(me) :: else fi
}

/* fetched is the leader's side of a question. */
inline fetched(ld, fo) {
  t_ = 0; d_ = 0;
  if :: r[fo].askLast > 0 -> endOfEpoch(ld, r[fo].askLast) :: else fi;
  if
#ifndef MUT_SKIP_DIVERGENCE
  :: r[fo].askLast > 0 && (t_ != r[fo].askLast || d_ < r[fo].askNext) -> r[fo].kind = 3; r[fo].divEpoch = t_; r[fo].divEnd = d_
#endif
  :: else ->
    if
    :: r[fo].askNext > r[ld].end -> r[fo].kind = 3; r[fo].divEpoch = LAST(ld); r[fo].divEnd = r[ld].end
    :: else ->
#ifdef MUT_COUNT_ENDS
      r[ld].said[fo] = r[fo].askNext + 1;
#else
      r[ld].said[fo] = r[fo].askDurable + 1;
#endif
      raise(ld);
      r[fo].kind = 2; r[fo].answerHW = r[ld].hw;
      if :: r[fo].askNext < r[ld].end -> r[fo].entry = r[ld].log[r[fo].askNext] :: else fi
    fi
  fi;
  r[fo].askDurable = 0
}

/* take is the follower's side of an answer. */
inline take(me) {
  if
  :: r[me].kind == 3 ->
    if
    :: r[me].askNext == r[me].end && r[me].askLast == LAST(me) ->
      endOfEpoch(me, r[me].divEpoch);
      if :: r[me].divEnd < d_ -> d_ = r[me].divEnd :: else fi;
      e_ = d_;
      cut(me, e_);
      check()
    :: else
    fi
  :: r[me].kind == 2 ->
    if
    :: r[me].entry != 0 && r[me].askNext == r[me].end && r[me].end < L -> r[me].log[r[me].end] = r[me].entry; r[me].end++
    :: else
    fi;
    if
    :: r[me].askNext <= r[me].end ->
      e_ = (r[me].answerHW < r[me].durable -> r[me].answerHW : r[me].durable);
      if :: r[me].hw < e_ -> r[me].hw = e_ :: else fi
    :: else
    fi
  fi;
  dropFetch(me)
}

/* With ATONCE nobody proposes on an assignment that is old: it would be refused. */
#ifdef ATONCE
#define MAYPROPOSE(me) r[me].fresh
#else
#define MAYPROPOSE(me) 1
#endif
/* Steps of node me with regard to another, k. */
#define PROPOSE r[me].want = r[me].wish; r[me].wantEpoch = r[me].epoch; r[me].wantFresh = r[me].fresh
#define SHRINK(k) :: d_step { LEADS(me) && MAYPROPOSE(me) && r[me].wish == 0 && r[me].want == 0 && k != me && IN(r[me].isr, k) -> \
  r[me].wish = r[me].isr & ~BIT(k); PROPOSE }
#define EXPAND(k) :: d_step { LEADS(me) && MAYPROPOSE(me) && r[me].wish == 0 && r[me].want == 0 && k < N && k != me && !IN(r[me].isr, k) && r[me].said[k % N] != 0 && \
  CAUGHTUP(k % N) -> r[me].wish = r[me].isr | BIT(k); PROPOSE }
#if defined(MUT_JOIN_EARLY)
#define CAUGHTUP(k) 1
#elif defined(MUT_JOIN_BELOW_START)
#define CAUGHTUP(k) (r[me].said[k] > r[me].hw)
#else
#define CAUGHTUP(k) (r[me].said[k] > r[me].hw && r[me].said[k] > r[me].start)
#endif
/* With LATE questions are late, and answers; with ATONCE neither; else answers only. */
#define ASK(me) r[me].kind = 1; r[me].askEpoch = r[me].epoch; r[me].askNext = r[me].end; r[me].askLast = LAST(me); r[me].askDurable = r[me].durable;
#define HEARS(me) (LEADS(r[me].lead) && r[r[me].lead].epoch == r[me].epoch)
#ifdef LATE
#define PROMPT(me) 1
#define ANSWER(me)
#else
#define PROMPT(me) HEARS(me)
#ifdef ATONCE
#define ANSWER(me) k_ = r[me].lead; fetched(k_, me); take(me)
#else
#define ANSWER(me) k_ = r[me].lead; fetched(k_, me)
#endif
#endif
#ifdef MUT_IGNORE_PARTITION_EPOCH
#define INTIME(me) 1
#else
#define INTIME(me) r[me].wantFresh
#endif
/* A session has ended, the node is down or only silent, and k leads what it led; it starts again, and its registration comes before all else. */
#define END(k) :: d_step { IN(alive, me) && (!r[me].up || fencings < F) && ELECTABLE(me, k) -> \
  if :: r[me].up -> fencings++ :: else fi; goOut(me, k) }
#define START(k) :: d_step { !r[me].up && ELECTABLE(me, k) -> r[me].up = 1; goOut(me, k) } \
  :: d_step { !r[me].up && ELECTABLE(me, k) -> r[me].up = 1; handOver(me, k) }

proctype node(byte me) {
  do
  /* A producer's record. */
  :: d_step { LEADS(me) && r[me].end < L && values < V ->
      assert(actor[r[me].epoch] == 0 || actor[r[me].epoch] == me + 1);
      actor[r[me].epoch] = me + 1;
      values++;
      r[me].log[r[me].end] = 8 * r[me].epoch + values;
      r[me].end++;
#if defined(MUT_ACK_AT_END) || defined(MUT_SERVE_AT_END)
      raise(me)
#endif
    }
  /* A round of the write-ahead log. */
  :: d_step { r[me].up && (r[me].durable < r[me].end || r[me].saved != r[me].end) ->
      o_ = 0;
      do :: o_ < L -> r[me].disk[o_] = r[me].log[o_]; o_++ :: else -> break od;
      r[me].saved = r[me].end; r[me].durable = r[me].end;
      if :: r[me].lead == me -> raise(me) :: else fi
    }
  /* Following. */
  :: d_step { FOLLOWS(me) && r[me].kind == 0 && PROMPT(me) -> ASK(me) ANSWER(me) }
#ifdef LATE
  :: d_step { r[me].kind == 1 && r[me].lead < N && r[me].epoch == r[me].askEpoch && HEARS(me) -> k_ = r[me].lead; fetched(k_, me) }
  :: d_step { r[me].kind == 1 && r[me].epoch != r[me].askEpoch -> dropFetch(me) } /* refused by whoever gets it */
#endif
  :: d_step { r[me].kind > 1 -> if :: FOLLOWS(me) && r[me].epoch == r[me].askEpoch -> take(me) :: else -> dropFetch(me) fi }
  /* Reviews: out with anyone who may have lagged, in with who has caught up. */
  SHRINK(0) SHRINK(1) SHRINK(2)
  EXPAND(0) EXPAND(1) EXPAND(2)
  :: d_step { r[me].want != 0 -> /* granted or refused by the truth */
      if
      :: lead == me && epoch == r[me].wantEpoch && (r[me].want & ~isr & ~alive) == 0 && INTIME(me) -> isr = r[me].want; changed()
      :: else
      fi;
      r[me].want = 0; r[me].wantEpoch = 0; r[me].wantFresh = 0
    }
#ifdef MUT_WITHDRAW
  :: d_step { LEADS(me) && r[me].wish != 0 -> r[me].wish = 0; raise(me) } /* though its fate is unknown */
#else
  :: d_step { LEADS(me) && r[me].wish != 0 && r[me].want == 0 && r[me].fresh -> r[me].wish = 0; raise(me) } /* refused, and all before it was heard */
#endif
  /* The metadata. */
  :: d_step { r[me].up && !r[me].fresh -> heard(me) }
  :: d_step { r[me].up && r[me].fresh && !IN(alive, me) && (lead != NONE || !IN(isr, me) || epoch < E) ->
      alive = alive | BIT(me);
      if :: lead == NONE && IN(isr, me) -> lead = me; epoch++; changed() :: else fi
    }
  /* Faults. */
  :: d_step { r[me].up && crashes < C ->
      crashes++;
      o_ = 0;
      do :: o_ < L -> r[me].log[o_] = r[me].disk[o_]; o_++ :: else -> break od;
#ifdef MUT_KEEP_OS
      /* log.flush=os: the disk has lost what was said to be on it */
      if :: r[me].saved > 0 -> r[me].saved--; r[me].disk[r[me].saved] = 0; r[me].log[r[me].saved] = 0 :: else fi;
#endif
      r[me].end = r[me].saved; r[me].durable = r[me].saved; r[me].hw = 0;
      r[me].up = 0; r[me].lead = NONE; r[me].epoch = 0; r[me].isr = 0; r[me].fresh = 0;
      stopLeading(me);
      dropFetch(me);
      check()
    }
  END(0) END(1) END(2) END(NONE)
  START(0) START(1) START(2) START(NONE)
  /* A preferred election. */
  :: d_step { lead != NONE && lead != me && IN(isr & alive, me) && epoch < E -> lead = me; epoch++; changed() }
  od
}

init {
  d_step {
    i_ = 0;
    do
    :: i_ < N -> r[i_].up = 1; r[i_].lead = NONE; i_++
    :: else -> break
    od
  };
  atomic {
    i_ = 0;
    do
    :: i_ < N -> run node(i_); i_++
    :: else -> break
    od
  }
}
