package explore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"kelson.dev/operator/client"
)

// users make the inputs of the scenario, as its users, other controllers and simulated operators
// do. While one of their writes is under way, the trial lets steps pass, so that the write can
// reach the server; see do. Only the goroutine of the trial calls them, except for create and
// createWhile, which run in the goroutine of an input.
type users struct {
	trial   *trial
	setup   *setup
	result  *result
	history *history

	clients    map[string]client.Client // of inputs that act as another user
	refusals   int                      // how many changes of try the server has refused
	simulated  map[generationOf]bool    // on which simulated operators have acted
	simulating bool                     // while a simulated operator acts
}

// try makes a change, which the server may refuse. A refused change has no effect.
func (u *users) try(do func(context.Context, client.Client) error) bool {
	refused := error(nil)
	ok := u.do(Input{name: "action", do: func(ctx context.Context, c client.Client) error {
		if err := do(ctx, c); err != nil {
			if !isRefusal(err) {
				return err
			}
			refused = err
		}
		return nil
	}})
	if refused != nil {
		u.refusals++
		u.result.log("refused: " + refused.Error())
	}
	return ok
}

// create creates an object. If the operator's process was killed or suspended meanwhile, its
// webhooks refuse or do not answer, and the user tries again.
func (u *users) create(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	p := u.trial.operator.newest.Load()
	return u.createWhile(ctx, c, obj, time.Second, func(error) bool { return u.trial.operator.newest.Load() != p })
}

// createWhile creates an object. It repeats the attempt after a pause if again returns true for the
// error, until the time patience is over.
func (u *users) createWhile(ctx context.Context, c client.Client, obj *unstructured.Unstructured, pause time.Duration,
	again func(error) bool) error {
	for begin := time.Now(); ; time.Sleep(pause) {
		err := c.Create(ctx, obj.DeepCopy())
		if err == nil || !again(err) || time.Since(begin) > u.setup.patience() {
			return err
		}
	}
}

// makeInput makes the n-th input, or the deletions at the end. If the plan has Down for it, the
// operator is down meanwhile.
func (u *users) makeInput(n int, input func() bool) bool {
	if u.trial.injector.find(Point{Verb: during, Resource: "input", N: n}, Down).Kind == "" {
		return input()
	}
	u.trial.operator.stop()
	return input() && u.trial.pass(downtime) && u.trial.operator.resume()
}

// clientOf returns the client of the user who makes an input.
func (u *users) clientOf(i Input) (client.Client, error) {
	if i.as == "" {
		return u.setup.env.Client(), nil
	}
	if c := u.clients[i.as]; c != nil {
		return c, nil
	}
	config := rest.CopyConfig(u.setup.env.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: i.as,
		Groups: []string{"system:masters", "system:authenticated"}}
	manager := i.as[strings.LastIndex(i.as, ":")+1:]
	c, err := client.New(client.Config{REST: config, Scheme: u.setup.env.Client().Scheme(), FieldOwner: manager})
	if err != nil {
		return nil, fmt.Errorf("a client for %s: %w", i.as, err)
	}
	if u.clients == nil {
		u.clients = map[string]client.Client{}
	}
	u.clients[i.as] = c
	return c, nil
}

// makeInputs makes the inputs, and deletes their objects at the end.
func (u *users) makeInputs() {
	for i, input := range u.setup.scenario.Inputs {
		u.trial.progress.last = i == len(u.setup.scenario.Inputs)-1
		made := u.trial.startBeside(i+1) && u.makeInput(i+1, func() bool { return u.input(u.trial.actions.createWith(input)) })
		if made && !u.trial.progress.last && u.setup.scenario.Inputs[i+1].together {
			continue
		}
		if !made || !u.trial.settle() || !u.trial.actions.observeForeign() || !u.trial.actions.act(i+1) {
			return
		}
	}
	u.result.end = u.history.state()
	u.result.counts = maps.Clone(u.history.counts)
	u.trial.oracles.keepErrors()
	if u.setup.scenario.Keep {
		return
	}
	if u.makeInput(len(u.setup.scenario.Inputs)+1, u.deleteInputs) && u.trial.settle() &&
		u.trial.actions.removeFinalizers() {
		u.result.left = u.history.state()
		u.trial.oracles.keepErrors()
	}
}

// deleteInputs deletes the objects of the inputs, and the copies of Batch.
func (u *users) deleteInputs() bool {
	for _, input := range slices.Backward(u.setup.scenario.Inputs) {
		if input.apply != nil && !u.input(Delete(input.apply)) {
			return false
		}
	}
	for _, obj := range slices.Backward(u.trial.progress.copies) {
		if !u.input(Delete(obj)) {
			return false
		}
	}
	return true
}

// input makes one input.
func (u *users) input(i Input) bool {
	u.result.log("input: " + i.name)
	u.trial.progress.inputs++
	if i.back != nil {
		return u.flip(i)
	}
	if i.fields != nil {
		return u.changeFields(i)
	}
	if i.do != nil && !u.do(i) {
		return false
	}
	if i.wait > 0 {
		u.trial.progress.waits = append(u.trial.progress.waits, waiting{time.Now(), u.history.state()})
		return u.trial.pass(i.wait)
	}
	return true
}

// do makes an input. While it runs, only the control plane writes, unless the input waits.
func (u *users) do(i Input) bool {
	done := make(chan error, 1)
	begin := time.Now()
	user, err := u.clientOf(i)
	if err != nil {
		u.result.failed = err
		return false
	}
	go func() {
		done <- i.do(context.Background(), user)
		u.trial.gate.wake()
	}()
	for {
		u.trial.timing.wait()
		select {
		case err := <-done:
			if err != nil {
				u.result.failed = fmt.Errorf("input %q: %w%s", i.name, err, u.setup.changedByWebhooks(err))
			}
			return err == nil
		default:
		}
		_, step, ok := u.trial.turn()
		if !ok {
			return false
		}
		if !step {
			if time.Since(begin) > u.setup.patience()/2 &&
				(u.trial.injector.release() || u.trial.operator.stopped && u.trial.operator.resume()) {
				begin = time.Now() // the user waits for the end of a fault
			}
			u.trial.timing.await(time.Second)
		}
	}
}
