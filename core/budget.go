package core

import (
	"math/bits"
	"sync"
)

const (
	smallestClass = 12 // 4 KiB: smaller frames are allocated
	largestClass  = 20 // 1 MiB: larger frames are allocated
)

// frame is a request in memory: its bytes, and what it was charged to the budget.
type frame struct {
	bytes  []byte
	charge int64
}

// budget bounds the bytes of all requests in memory, and recycles their frames by size class.
type budget struct {
	mu    sync.Mutex
	cond  sync.Cond
	limit int64
	used  int64

	classes [largestClass - smallestClass + 1]sync.Pool // of *[]byte whose capacity is the class's size
}

func newBudget(limitBytes int64) *budget {
	b := &budget{limit: limitBytes}
	b.cond.L = &b.mu
	return b
}

// acquire waits for n bytes. A request larger than the whole budget waits until it is alone. It gives up with
// errClosing when stop says so, which is asked under the budget's lock; wake makes it ask again.
func (b *budget) acquire(n int64, stop func() bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used > 0 && b.used+n > b.limit {
		if stop() {
			return errClosing
		}
		b.cond.Wait()
	}
	b.used += n
	return nil
}

// wake makes every acquire ask its stop again.
func (b *budget) wake() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// get is a frame of n bytes, which acquire has admitted. Its content is arbitrary.
func (b *budget) get(n int) []byte {
	class := bits.Len(uint(n - 1))
	if class < smallestClass || class > largestClass {
		return make([]byte, n)
	}
	if p, ok := b.classes[class-smallestClass].Get().(*[]byte); ok {
		return (*p)[:n]
	}
	return make([]byte, n, 1<<class)
}

// put gives back what the frame was charged, and with reuse its memory to the next get: nobody may keep any of it
// then.
func (b *budget) put(f frame, reuse bool) {
	whole := f.bytes[:0]
	if class := bits.Len(uint(cap(whole) - 1)); reuse && class >= smallestClass && class <= largestClass && cap(whole) == 1<<class {
		b.classes[class-smallestClass].Put(&whole)
	}
	b.mu.Lock()
	b.used -= f.charge
	b.cond.Broadcast()
	b.mu.Unlock()
}

// inUse is the number of bytes admitted now.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
