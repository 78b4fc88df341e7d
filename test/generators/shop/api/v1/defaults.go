package v1

// DefaultDoor is the default door.
const DefaultDoor = "front"

// SetDefaults_PizzaSpec has larger pizzas cut into more slices.
//
//lint:ignore ST1003 the generator knows it by this name
func SetDefaults_PizzaSpec(spec *PizzaSpec) {
	if spec.Slices.Limit == 0 {
		spec.Slices.Limit = 8
	}
}
