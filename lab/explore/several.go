package explore

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
)

// Other is another operator that runs during the whole exploration, in processes of its own. Its
// requests and events are steps and points of faults as well: a kill at one of its writes kills its
// process, and the alarms name it. It has all rights, its webhooks are not called, and faults that
// concern a whole operator, such as [Down], [Upgrade] and [ClockJump], concern the explored one
// only.
type Other struct {
	// Name is the name of the operator in steps and alarms.
	Name string
	// Operator runs one process, as Scenario.Operator. Program is a program, as Scenario.Program.
	// Set that which the explored operator also has.
	Operator func(context.Context, *rest.Config) error `json:"-"`
	Program  *Binary
}

// validateOthers checks the other operators.
func (s *Scenario) validateOthers() error {
	names := map[string]bool{}
	for i := range s.Others {
		o := &s.Others[i]
		switch {
		case o.Name == "" || names[o.Name]:
			return fmt.Errorf("the scenario's Others need different names: %q", o.Name)
		case s.Binary != nil:
			return errors.New("the scenario has Others, which need virtual time")
		case (o.Program != nil) != (s.Program != nil) || (o.Operator != nil) != (s.Operator != nil):
			return fmt.Errorf("the scenario's Others need an Operator or a Program, as the explored operator: %s", o.Name)
		case o.Program != nil:
			if err := o.Program.validate(); err != nil {
				return fmt.Errorf("the operator %s: %w", o.Name, err)
			}
		}
		names[o.Name] = true
	}
	return nil
}

// operators returns the processes of the explored operator, and of the others.
func (op *processes) operators() []*processes { return append([]*processes{op}, op.others...) }

// prefix begins the texts about another operator; "" for the explored one.
func (op *processes) prefix() string {
	if op == nil || op.other == nil {
		return ""
	}
	return op.other.Name + ": "
}

// OtherFolder is the project of another operator, which ConfigFile names.
type OtherFolder struct {
	Name, Folder string
	Args, Env    []string
}

// OtherFolders returns the projects of the other operators. The caller builds them, and sets
// Scenario.Others.
func (s *Scenario) OtherFolders() []OtherFolder { return s.folders }
