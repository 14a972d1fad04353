package core

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	smallestClass = 12 // 4 KiB: smaller frames are allocated
	largestClass  = 24 // 16 MiB: larger frames are allocated
	classSteps    = 4  // between two powers of two: a frame is at most a quarter larger than what it is for

	stallGrace       = 3 * time.Second  // a claim that others wait for may stand still so long, once it is its peer's turn
	turnGrace        = 30 * time.Second // before that: requests ahead of it, and the disk, take their time
	stallCheck       = time.Second      // how often those who wait look for claims that stand still
	leastBytesPerSec = 64 << 10         // after stallGrace, a claim that others wait for must have moved on at this rate
)

// errStalled ends a connection that held memory and didn't move while others waited for it.
var errStalled = errors.New("stalled while others waited for its memory")

// frame is a request in memory: its bytes, and what it was charged to the budget.
type frame struct {
	bytes  []byte
	charge int64
}

// budget bounds bytes in memory that many connections share, and recycles frames by size class.
type budget struct {
	mu      sync.Mutex
	cond    sync.Cond
	limit   int64
	used    int64
	claims  map[*claim]struct{} // what depends on a peer to be given back
	isArmed bool                // someone waits, and a timer will wake it
	isFair  bool                // who came first is served first, even if a smaller one would fit
	line    []*int64            // those who wait, if isFair; what they point to is the bytes they want

	classes [(largestClass-smallestClass)*classSteps + 1]sync.Pool // of *[]byte whose capacity is the class's size
}

// claim is a part of a budget that is given back when a peer has sent or taken its bytes. When others wait for memory,
// the claims of peers that don't move end.
type claim struct {
	of      *budget
	charge  int64
	end     func()        // closes the connection; called without the budget's lock, once
	moved   atomic.Int64  // bytes that the peer has sent or taken
	began   time.Time     // guarded by budget.mu
	grace   time.Duration // likewise
	isEnded bool          // likewise
}

func newBudget(limitBytes int64) *budget {
	b := &budget{limit: limitBytes, claims: make(map[*claim]struct{})}
	b.cond.L = &b.mu
	return b
}

// acquire waits for n bytes. A request larger than the whole budget waits until it is alone. It gives up with
// errClosing when stop says so, which is asked under the budget's lock; wake makes it ask again. c, if it isn't nil,
// stands for the bytes until settle.
func (b *budget) acquire(n int64, c *claim, stop func() bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isFair {
		b.line = append(b.line, &n)
		defer b.leave(&n)
	}
	for b.used > 0 && b.used+n > b.limit || b.isFair && b.line[0] != &n {
		if stop() {
			return errClosing
		}
		if stalled := b.stalled(min(b.used, b.used+n-b.limit)); len(stalled) > 0 {
			b.mu.Unlock()
			for _, s := range stalled {
				s.end()
			}
			b.mu.Lock()
			continue
		}
		if !b.isArmed {
			b.isArmed = true
			time.AfterFunc(stallCheck, func() {
				b.mu.Lock()
				b.isArmed = false
				b.cond.Broadcast()
				b.mu.Unlock()
			})
		}
		b.cond.Wait()
	}
	b.used += n
	if c != nil {
		c.of, c.charge, c.began = b, n, time.Now()
		b.claims[c] = struct{}{}
	}
	return nil
}

// leave takes the one who wants *n bytes out of the line. Called with mu held.
func (b *budget) leave(n *int64) {
	i := slices.Index(b.line, n)
	b.line = slices.Delete(b.line, i, i+1)
	if len(b.line) > 0 && i == 0 {
		b.cond.Broadcast() // the next one may fit too
	}
}

// stalled takes the claims that stand still, the largest first, until needBytes are about to be free. Called with mu held.
func (b *budget) stalled(needBytes int64) []*claim {
	var list []*claim
	now := time.Now()
	for c := range b.claims {
		late := now.Sub(c.began) - c.grace
		switch {
		case c.isEnded:
			needBytes -= c.charge // on its way out
		case late > 0 && c.moved.Load() < int64(late.Seconds()*leastBytesPerSec):
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(x, y *claim) int { return cmp.Compare(y.charge, x.charge) })
	for i, c := range list {
		if needBytes <= 0 {
			return list[:i]
		}
		c.isEnded = true
		needBytes -= c.charge
	}
	return list
}

// turn says that from now on c waits for its peer only.
func (c *claim) turn() {
	c.of.mu.Lock()
	c.began, c.grace = time.Now(), stallGrace
	c.of.mu.Unlock()
}

// settle takes c off the claims; its bytes remain charged, and depend on nobody outside any more.
func (c *claim) settle() {
	b := c.of
	b.mu.Lock()
	delete(b.claims, c)
	b.mu.Unlock()
}

// release settles c and gives its bytes back.
func (c *claim) release() {
	b := c.of
	b.mu.Lock()
	delete(b.claims, c)
	b.used -= c.charge
	b.cond.Broadcast()
	b.mu.Unlock()
}

// wake makes every acquire ask its stop again.
func (b *budget) wake() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// classOf is the smallest class whose frames hold n bytes, and their size; false where frames are not recycled.
func classOf(n int) (class, size int, ok bool) {
	if n <= 1<<(smallestClass-1) || n > 1<<largestClass {
		return 0, 0, false
	}
	power := max(bits.Len(uint(n-1)), smallestClass+1) - 1 // the greatest below n
	step := 1 << power / classSteps
	steps := max(0, (n-1<<power+step-1)/step)
	return (power-smallestClass)*classSteps + steps, 1<<power + steps*step, true
}

// get is a frame of n bytes, which acquire has admitted. Its content is arbitrary.
func (b *budget) get(n int) []byte {
	class, size, ok := classOf(n)
	if !ok {
		return make([]byte, n)
	}
	if p, ok := b.classes[class].Get().(*[]byte); ok {
		return (*p)[:n]
	}
	return make([]byte, n, size)
}

// put gives back what the frame was charged, and with reuse its memory to the next get: nobody may keep any of it
// then.
func (b *budget) put(f frame, reuse bool) {
	whole := f.bytes[:0]
	if class, size, ok := classOf(cap(whole)); reuse && ok && cap(whole) == size {
		b.classes[class].Put(&whole)
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

// allowance bounds bytes that nobody waits for: who finds none does without.
type allowance struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes if they are there. More than the whole allowance is given to one that is alone.
func (a *allowance) take(n int64) bool {
	for {
		used := a.used.Load()
		if used > 0 && used+n > a.limit {
			return false
		}
		if a.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (a *allowance) give(n int64) { a.used.Add(-n) }
