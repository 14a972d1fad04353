package worker

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Elsewhere is the answer to a request that another worker of the group serves: the leader what changes the config topic,
// a task's owner its restart.
type Elsewhere struct {
	URL string // of that worker's REST, with a slash at its end
}

// Error tells who serves it.
func (e *Elsewhere) Error() string { return "another worker serves this: " + e.URL }

// HTTPStatus is that of a request that could not be handed on.
func (*Elsewhere) HTTPStatus() int { return http.StatusConflict }

// leading is nil where this worker leads, otherwise it tells who does.
func (w *Worker) leading() error {
	if err := w.started(); err != nil {
		return err
	}
	switch s := w.group.current(); {
	case s.leads:
		return nil
	case s.leaderURL == "":
		return conflict("Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.")
	default:
		return &Elsewhere{URL: s.leaderURL}
	}
}

// elsewhere tells who has what does not run here: the leader knows.
func (w *Worker) elsewhere(id TaskID) error {
	if err := w.leading(); err != nil {
		return err
	}
	s := w.group.current()
	if owner := s.owners[id]; owner != "" && !s.owned[id] {
		return &Elsewhere{URL: owner}
	}
	return conflict("Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
}

// prime makes sure that what a leader of before has written is read; the caller holds writing.
func (w *Worker) prime(ctx context.Context) error {
	if err := w.leading(); err != nil {
		return err
	}
	if term := w.group.current().term; term != w.primed {
		if err := w.configs.readToEnd(ctx); err != nil {
			return err
		}
		w.primed = term
	}
	return nil
}

// CatchUp waits until what others have written to the config topic is read here.
func (w *Worker) CatchUp(ctx context.Context) error { return w.configs.readToEnd(ctx) }

// lead does what a leader has to do beside dividing the work, until ctx ends.
func (w *Worker) lead(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := w.rotate(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("the key of requests between workers was not changed, trying again", "error", err)
		}
		select {
		case <-w.leads:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// session is a session-key record: the key with which workers sign what they ask of each other.
type session struct {
	key       []byte
	algorithm string
	created   time.Time
}

// signatures are the algorithms of keys and signatures by Java's names.
func signatures() map[string]func() hash.Hash {
	return map[string]func() hash.Hash{sessionAlgorithm: sha256.New, "HmacSHA384": sha512.New384, "HmacSHA512": sha512.New}
}

const sessionAlgorithm = "HmacSHA256"

func parseSession(value []byte) (*session, error) {
	var v struct {
		Key       []byte `json:"key"` // base64
		Algorithm string `json:"algorithm"`
		Created   int64  `json:"creation-timestamp"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, err
	}
	if len(v.Key) == 0 {
		return nil, errors.New("no key")
	}
	return &session{v.Key, v.Algorithm, time.UnixMilli(v.Created)}, nil
}

func (s *session) record() entry {
	return entry{[]byte(sessionKey), mustJSON(map[string]any{"key": s.key, "algorithm": s.algorithm, "creation-timestamp": s.created.UnixMilli()})}
}

// sign gives the signature of a request's body.
func (s *session) sign(body []byte, algorithm string) ([]byte, bool) {
	newHash, ok := signatures()[algorithm]
	if !ok {
		return nil, false
	}
	mac := hmac.New(newHash, s.key)
	mac.Write(body)
	return mac.Sum(nil), true
}

// rotate makes a new key when there is none, or when it is old.
func (w *Worker) rotate(ctx context.Context) error {
	if s := w.group.current(); !s.leads || !s.signed {
		return nil
	}
	due := func() bool {
		s := w.session.Load()
		return s == nil || signatures()[s.algorithm] == nil || !w.now().Before(s.created.Add(w.cfg.KeyTTL))
	}
	if !due() {
		return nil
	}
	return w.change(ctx, func(context.Context) ([]entry, error) {
		if !due() { // the leader of before has made one
			return nil, nil
		}
		fresh := &session{key: make([]byte, sha256.Size), algorithm: sessionAlgorithm, created: w.now()}
		_, _ = rand.Read(fresh.key) // never fails
		return []entry{fresh.record()}, nil
	})
}

// Headers of a request between workers.
const (
	signatureHeader          = "X-Connect-Authorization"
	signatureAlgorithmHeader = "X-Connect-Request-Signature-Algorithm"
	revisionHeader           = "X-Weir-Revision" // the config record from which tasks were planned; Java's workers don't send it
)

// sendTasks has the leader write a plan.
func (w *Worker) sendTasks(ctx context.Context, spec connectorSpec, tasks []map[string]string, s *share) error {
	if s.leaderURL == "" {
		return errors.New("the group has no known leader")
	}
	if tasks == nil {
		tasks = []map[string]string{}
	}
	body := mustJSON(tasks)
	ctx, end := w.group.whileLedBy(ctx, s.leaderURL)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.leaderURL+"connectors/"+url.PathEscape(spec.name)+"/tasks", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(revisionHeader, strconv.FormatInt(spec.revision, 10))
	if s.signed {
		key := w.session.Load()
		if key == nil {
			return errors.New("the group's leader has made no key yet")
		}
		signature, _ := key.sign(body, sessionAlgorithm)
		req.Header.Set(signatureHeader, base64.StdEncoding.EncodeToString(signature))
		req.Header.Set(signatureAlgorithmHeader, sessionAlgorithm)
	}
	resp, err := w.peers.Do(req)
	if err != nil {
		return fmt.Errorf("send tasks to the leader: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("send tasks to the leader %s: %s: %s", s.leaderURL, resp.Status, answer)
	}
	return nil
}

// PutTasks takes the plan of a connector that runs at another worker: body is a list of configurations, header the request's,
// which must be signed where the group's protocol says so.
func (w *Worker) PutTasks(ctx context.Context, name string, body []byte, header http.Header) error {
	if err := w.started(); err != nil {
		return err
	}
	if w.group.alone {
		return notFound("this worker has no group")
	}
	if err := w.authentic(body, header); err != nil {
		return err
	}
	if err := w.leading(); err != nil {
		return err
	}
	var tasks []map[string]string
	if err := json.Unmarshal(body, &tasks); err != nil {
		return badRequest("the body is not a list of task configurations: %v", err)
	}
	if len(tasks) > maxTasks {
		return badRequest("%d tasks are too many, %d are the most", len(tasks), maxTasks)
	}
	spec := connectorSpec{name: name, revision: anyRevision}
	if given := header.Get(revisionHeader); given != "" {
		revision, err := strconv.ParseInt(given, 10, 64)
		if err != nil || revision < 0 {
			return badRequest("%s is no offset: %q", revisionHeader, given)
		}
		if spec.revision = revision; w.applied.Load() <= revision { // the owner has read it already
			if err := w.CatchUp(ctx); err != nil {
				return err
			}
		}
	}
	if _, err := w.existing(name); err != nil {
		return err
	}
	return w.writeTasks(ctx, spec, tasks)
}

// authentic checks the signature of a request between workers.
func (w *Worker) authentic(body []byte, header http.Header) error {
	if s := w.group.current(); !s.signed {
		return nil
	}
	algorithm, given := strings.TrimSpace(header.Get(signatureAlgorithmHeader)), header.Get(signatureHeader)
	if algorithm == "" || given == "" {
		return badRequest("Internal request missing required signature")
	}
	signature, err := base64.StdEncoding.DecodeString(given)
	if err != nil {
		return badRequest("Internal request has a malformed signature")
	}
	key := w.session.Load()
	if key == nil {
		return &Error{http.StatusServiceUnavailable, "This worker is still starting up and has not been able to read a session key from the config topic yet"}
	}
	want, ok := key.sign(body, algorithm)
	if !ok {
		return badRequest("This worker does not support the '%s' key signing algorithm used by other workers.", algorithm)
	}
	if !hmac.Equal(want, signature) {
		return &Error{http.StatusForbidden, "Internal request contained invalid signature."}
	}
	return nil
}
