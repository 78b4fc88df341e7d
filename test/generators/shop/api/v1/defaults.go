package v1

// DefaultDoor is the default door.
const DefaultDoor = "front"

// SetDefaults_PizzaSpec sets the default of the maximum number of slices.
//
//lint:ignore ST1003 the generator requires this name
func SetDefaults_PizzaSpec(spec *PizzaSpec) {
	if spec.Slices.Limit == 0 {
		spec.Slices.Limit = 8
	}
}
