package storage

import (
	"context"
	"crypto/sha256"
	"errors"
)

// keySet knows which records are superseded. Within bounded memory: if the keys written since the last compaction are too many for one
// map, they are taken in classes by their hash, one map at a time, and what each finds is kept as one bit a record.
//
// Keys are known by 16 bytes of their SHA-256, so that no client can make two of them meet.
type keySet struct {
	newest map[keyHash]int64
	most   int    // keys in a map
	class  int    // of newest
	of     int    // classes
	gone   []byte // with several classes: one bit for each record of the sources, by its ordinal
}

type keyHash [16]byte

// keyBytes is what a key takes in a map, about.
const keyBytes = 64

func hashOf(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:16])
}

func (k *keySet) holds(h keyHash) bool {
	return k.of == 1 || (int(h[14])<<8|int(h[15]))%k.of == k.class
}

// isSuperseded says that a later record has the key. ordinal counts the records of the sources.
func (k *keySet) isSuperseded(key []byte, offset int64, ordinal int) bool {
	if k.of == 1 {
		newest, ok := k.newest[hashOf(key)]
		return ok && offset < newest
	}
	return k.gone[ordinal/8]&(1<<(ordinal%8)) != 0
}

// maxClasses bounds the passes over the sources.
const maxClasses = 1 << 12

// gatherKeys is step 2.
func (c *compaction) gatherKeys(ctx context.Context) error {
	k := &c.keys
	k.most = max(1, int(c.store.opts.CompactionMapBytes/keyBytes))
	for k.of = 1; ; k.of *= 2 {
		k.gone = nil
		fits := true
		for k.class = 0; k.class < k.of && fits; k.class++ {
			var err error
			if fits, err = c.mapClass(ctx); err != nil {
				return err
			}
			if fits && k.of > 1 {
				if err := c.markClass(ctx); err != nil {
					return err
				}
			}
		}
		if fits {
			if k.of > 1 {
				k.newest = nil
			}
			return nil
		}
		if k.of >= maxClasses {
			k.most *= 2 // so many keys alike can't be: the memory is very small
		}
	}
}

// mapClass notes the newest offset of each key of the class written since the last compaction. false: they are too many.
func (c *compaction) mapClass(ctx context.Context) (fits bool, err error) {
	k := &c.keys
	k.newest = map[keyHash]int64{}
	for i := range c.sources {
		g := &c.sources[i]
		if g.end <= c.cleaned {
			continue
		}
		err := c.scan(ctx, g, func(b Batch) error {
			if b.IsControl() || b.LastOffset() < c.cleaned {
				return nil
			}
			records, err := b.records()
			if err != nil {
				return nil //nolint:nilerr // it stays as it is
			}
			for j := range records {
				r := &records[j]
				if r.Key == nil {
					continue
				}
				if h := hashOf(r.Key); k.holds(h) {
					k.newest[h] = b.BaseOffset() + int64(r.OffsetDelta)
				}
			}
			if len(k.newest) > k.most {
				return errStop
			}
			return nil
		})
		if errors.Is(err, errStop) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// markClass notes which records of the class are superseded.
func (c *compaction) markClass(ctx context.Context) error {
	k := &c.keys
	ordinal := 0
	for i := range c.sources {
		err := c.scan(ctx, &c.sources[i], func(b Batch) error {
			if b.IsControl() {
				return nil
			}
			records, err := b.records()
			if err != nil {
				return nil //nolint:nilerr // it stays as it is
			}
			for j := range records {
				r := &records[j]
				for len(k.gone) <= ordinal/8 {
					k.gone = append(k.gone, 0)
				}
				if h := hashOf(r.Key); r.Key != nil && k.holds(h) {
					if newest, ok := k.newest[h]; ok && b.BaseOffset()+int64(r.OffsetDelta) < newest {
						k.gone[ordinal/8] |= 1 << (ordinal % 8)
					}
				}
				ordinal++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
