package explore

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/lab/testenv"
)

// during is the verb of the points at which users make an input, or delete the objects of the
// inputs.
const during = "during"

// downtime is how long the operator is down after the input. Creation times are whole seconds, so
// it is longer than a second: the objects are older than the next process.
const downtime = 2 * time.Second

// downs returns the plans with Down: one for each input, and one for the deletions at the end. An
// operator with webhooks has none, because without it users create no objects, or other ones.
func (e *explorer) downs() (plans []Plan) {
	if e.hasWebhooks() {
		return nil
	}
	for i, input := range e.scenario.Inputs {
		if input.wait == 0 && input.back == nil {
			plans = append(plans, Plan{{Kind: Down, At: Point{Verb: during, Resource: "input", N: i + 1}}})
		}
	}
	if !e.scenario.Keep {
		plans = append(plans, Plan{{Kind: Down, At: Point{Verb: during, Resource: "input",
			N: len(e.scenario.Inputs) + 1}}})
	}
	return plans
}

// hasWebhooks reports whether the operator serves webhooks.
func (e *explorer) hasWebhooks() bool {
	return testenv.HasWebhooks(e.base.OperatorContext(context.Background()))
}

// changedByWebhooks explains why the server refuses an object whose manifest is right: webhooks are
// called before it compares the object with the definition.
func (t *trial) changedByWebhooks(err error) string {
	if !apierrors.IsInvalid(err) || !testenv.HasWebhooks(t.env.OperatorContext(context.Background())) {
		return ""
	}
	return "; if the manifest does not have this value, the operator's webhook has set it, " +
		"for example null for a list without omitempty"
}

// makeInput makes the n-th input, or the deletions at the end. If the plan has Down for it, the
// operator is down meanwhile.
func (t *trial) makeInput(n int, input func() bool) bool {
	if t.find(Point{Verb: during, Resource: "input", N: n}, Down).Kind == "" {
		return input()
	}
	t.stop()
	return input() && t.pass(downtime) && t.resume()
}

// stop kills the operator's process. No process runs until resume is called.
func (t *trial) stop() {
	t.process.kill()
	t.forgetErrors()
	t.stopped = true
}

// resume starts the next process, if the operator is stopped. It returns true.
func (t *trial) resume() bool {
	if t.stopped {
		t.stopped = false
		t.startNext()
		t.log("the operator starts")
	}
	return true
}
