package core

// charge weighs a request and waits for its bytes. A heavy one waits too until the connection has answered everything before
// it, fetches that wait at once: nothing heavy stands behind what may last. Called by the reader.
func (c *conn) charge(s *slot, req *Request) error {
	dropRepeats(req)
	s.weight = c.b.weigh(req)
	if s.weight == 0 {
		return nil
	}
	if s.weight >= heavyBytes && !c.settleBefore() {
		return errClosing
	}
	account := c.b.light
	if s.weight >= heavyBytes {
		account = c.b.heavy
	}
	s.claim = c.newClaim(turnGrace)
	if err := account.acquire(s.weight, s.claim, c.isClosed); err != nil {
		s.claim = nil
		return err
	}
	req.mayWait = func(cancel func()) bool { return c.mayWait(s, cancel) }
	return nil
}

// settleBefore answers the fetches that wait, and waits until every request is answered. It reports false when the connection
// is closed.
func (c *conn) settleBefore() bool {
	c.mu.Lock()
	var cancels []func()
	for _, s := range c.slots {
		if s.cancel != nil && !s.ready {
			cancels = append(cancels, s.cancel)
		}
	}
	c.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.closed == nil && len(c.slots) > 0 {
		c.cond.Wait()
	}
	return c.closed == nil
}

// mayWait lets a fetch wait if there is memory for it. From then on it holds none of what others need to be served.
func (c *conn) mayWait(s *slot, cancel func()) bool {
	if !c.b.waits.take(s.weight) {
		s.refused = true
		return false
	}
	c.mu.Lock()
	s.waiting, s.cancel = s.weight, cancel
	held := s.claim
	s.claim = nil
	c.mu.Unlock()
	held.release()
	return true
}

// drain ends what the connection has left behind: what waits is answered, what is answered is uncharged. Called when reader and
// writer have gone.
func (c *conn) drain() {
	c.mu.Lock()
	c.drained = true
	rest := c.slots
	c.slots = nil
	var cancels []func()
	var done []*slot
	for _, s := range rest {
		switch {
		case s.ready:
			done = append(done, s)
		case s.cancel != nil:
			cancels = append(cancels, s.cancel)
		}
	}
	c.mu.Unlock()
	for _, s := range done {
		c.b.uncharge(s)
	}
	for _, cancel := range cancels {
		cancel()
	}
}

// uncharge gives back what a request was charged. Its answer is written, or nobody wants it.
func (b *Broker) uncharge(s *slot) {
	if s.claim != nil {
		s.claim.release()
	}
	if s.waiting > 0 {
		b.waits.give(s.waiting)
	}
	s.claim, s.waiting, s.cancel = nil, 0, nil
}

// written gives back what o's answers were charged, and empties it.
func (b *Broker) written(o *output) {
	b.fetches.Add(-o.granted)
	for _, s := range o.charged {
		b.uncharge(s)
	}
	o.reset()
}
