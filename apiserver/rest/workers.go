package rest

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/internal/turn"
)

// perUser is the maximum number of large writes of one user that are in progress at the same time.
// At most turn.Processors of them compute; the others wait for webhooks, commits, or a turn.
var perUser = max(4, 2*turn.Processors)

// waitingPerPlace is the maximum number of large writes of a user that wait, for each place.
const waitingPerPlace = 16

// workers limits the large writes of each user. The work holds its place even after the request has
// ended.
type workers struct {
	mu    sync.Mutex
	users map[string]*places // users with work
}

// places counts the work of one user.
type places struct {
	taken chan struct{} // one element for each place that is taken
	turns turn.Turns    // limit the writes that are computed
	all   int           // taken or waited for; guarded by workers.mu
}

// enter waits for a place of the context's user, and then for a turn to compute. leave frees both.
// A turn pauses while its work waits. waits means that the work may wait without a pause; such work
// takes no turn. If too many writes wait already, or the context ends first, the error is a 429.
// Members of system:masters are not limited.
func (w *workers) enter(ctx context.Context, waits bool) (t *turn.Turn, leave func(), err error) {
	who, _ := request.UserFrom(ctx)
	if who == nil || slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return nil, func() {}, nil
	}
	name := who.GetName()
	p := w.join(name)
	if p == nil {
		return nil, nil, errTooMuchWork()
	}
	select {
	case p.taken <- struct{}{}:
	case <-ctx.Done():
		w.part(name, p)
		return nil, nil, errTooMuchWork()
	}
	free := func() {
		<-p.taken
		w.part(name, p)
	}
	if waits {
		return nil, free, nil
	}
	if t, err = p.turns.Take(ctx); err != nil {
		free()
		return nil, nil, errTooMuchWork()
	}
	return t, func() {
		t.End()
		free()
	}, nil
}

func errTooMuchWork() error {
	return apierrors.NewTooManyRequests("too many large writes of this user are in progress, please try again later", 1)
}

// join counts one more write of a user. It returns nil if there are too many.
func (w *workers) join(name string) *places {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.users[name]
	if p == nil {
		p = &places{taken: make(chan struct{}, perUser), turns: turn.New(turn.Processors)}
		if w.users == nil {
			w.users = map[string]*places{}
		}
		w.users[name] = p
	}
	if p.all >= perUser*(1+waitingPerPlace) {
		return nil
	}
	p.all++
	return p
}

func (w *workers) part(name string, p *places) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.all--; p.all == 0 {
		delete(w.users, name)
	}
}
