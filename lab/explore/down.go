package explore

import (
	"context"
	"time"

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

// stop kills the operator's process. No process runs until resume is called.
func (op *processes) stop() {
	op.process.kill()
	op.observed.forgetErrors()
	op.stopped = true
}

// resume starts the next process, if the operator is stopped. It returns true.
func (op *processes) resume() bool {
	if op.stopped {
		op.stopped = false
		op.startNext()
		op.result.log("the operator starts")
	}
	return true
}
