package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// world is a history without a fault and the log that goes with it: one producer's twenty records in each partition, acknowledged, seen, delivered.
func world() (*history, content) {
	h, log := newHistory(), make(content, partitions)
	for p := range int32(partitions) {
		l := lane{"kgo0", p}
		for range 20 {
			number := h.send(l)
			offset := int64(number)
			log[p] = append(log[p], record{offset, l.value(number)})
			h.answered(l, number, offset, nil)
			h.saw(p, offset, []byte(l.value(number)))
			h.deliver(p, offset)
		}
		h.commit(p, 20)
	}
	return h, log
}

// TestJudge: a sound history is sound, and each kind of fault is found, by its name.
func TestJudge(t *testing.T) {
	l := lane{"kgo0", 3}
	for _, c := range []struct {
		want   string // "": nothing
		damage func(h *history, log content)
	}{
		{"", func(*history, content) {}},
		{"", func(h *history, _ content) { h.answered(l, h.send(l), 0, errors.New("given up")) }},
		{"", func(h *history, log content) { // given up, and yet there
			h.answered(l, h.send(l), 0, errors.New("given up"))
			log[3] = append(log[3], record{20, l.value(20)})
			h.saw(3, 20, []byte(l.value(20)))
			h.deliver(3, 20)
		}},
		{"an acknowledged record is lost", func(_ *history, log content) { log[3] = log[3][:19] }},
		{"an acknowledged record is lost", func(h *history, _ content) { h.answered(lane{"kcat", 0}, h.send(lane{"kcat", 0}), unknown, nil) }},
		{"a record is elsewhere", func(h *history, _ content) { h.lanes[l][5] = 6 }},
		{"a record is there twice", func(_ *history, log content) { log[3] = append(log[3], record{20, l.value(4)}) }},
		{"records are out of order", func(_ *history, log content) { log[3][4].value, log[3][5].value = log[3][5].value, log[3][4].value }},
		{"a record that nobody sent", func(_ *history, log content) { log[3] = append(log[3], record{20, "kgo0/3/20"}) }},
		{"a record that nobody sent", func(_ *history, log content) { log[3][2].value = "kgo0/2/2" }},
		{"offsets go back", func(_ *history, log content) { log[3][7].offset = 5 }},
		{"a consumer saw what is no more", func(h *history, _ content) { h.saw(3, 20, []byte("kgo0/3/20")) }},
		{"a consumer saw what is no more", func(h *history, log content) {
			log[3][19].value = "other/3/0"
			h.lanes[lane{"other", 3}] = []int64{pending}
		}},
		{"where it had seen another record", func(h *history, _ content) { h.saw(3, 2, []byte("kgo0/3/3")) }},
		{"never delivered to the group", func(h *history, _ content) { delete(h.delivered[3], 9) }},
		{"never given to the consumer", func(h *history, _ content) { delete(h.seen[3], 9) }},
		{"led by node 1 and by node 2", func(h *history, _ content) { h.leads(3, 4, 1); h.leads(3, 5, 2); h.leads(3, 4, 2) }},
	} {
		h, log := world()
		c.damage(h, log)
		got := strings.Join(judge(h, log), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("want %q, got %q", c.want, got)
		}
	}
}

// TestDigest: contents that differ in one offset or one value don't look alike.
func TestDigest(t *testing.T) {
	_, log := world()
	_, moved := world()
	_, changed := world()
	moved[2][1].offset++
	changed[2][1].value += "0"
	for _, other := range []content{moved, changed} {
		if reflect.DeepEqual(log.digest(), other.digest()) {
			t.Errorf("%v and %v look alike", log[2], other[2])
		}
	}
}

// TestCommittedUpTo: what was acknowledged lately doesn't count where it may not be known yet.
func TestCommittedUpTo(t *testing.T) {
	h := newHistory()
	now := time.UnixMilli(1_700_000_000_000)
	for i := range 60 {
		h.commit(2, int64(i))
		at := now.Add(time.Duration(i) * time.Second * 11 / 10)
		got, all := h.committedUpTo(at, staleLimit)[2], h.committedUpTo(at, 0)[2]
		if known := now.Add(time.Duration(got) * time.Second * 11 / 10); got > 0 && (at.Sub(known) < staleLimit || at.Sub(known) > staleLimit+3*time.Second) || all != int64(i) {
			t.Errorf("at %d: %d of %d", i, got, all)
		}
		if i == 30 && got == 0 {
			t.Error("nothing is known after 33 s")
		}
	}
}

// TestPlan: a seed gives one plan, in which all faults occur, alone and in pairs.
func TestPlan(t *testing.T) {
	plan := func() (names []string) {
		rng := rand.New(rand.NewPCG(1, 7))
		for range 500 {
			s := nextStep(rng)
			names = append(names, fmt.Sprint(s.name, s.nodes, s.hold, s.order, s.calm))
		}
		return names
	}
	one := plan()
	if other := plan(); !reflect.DeepEqual(one, other) {
		t.Errorf("the same seed gave another plan")
	}
	text := strings.Join(one, "\n")
	for _, f := range append(catalog(), fault{name: "kill all"}, fault{name: " + "}) {
		if !strings.Contains(text, f.name) {
			t.Errorf("%q never happens", f.name)
		}
	}
}
