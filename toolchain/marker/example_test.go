package marker_test

import (
	"fmt"

	"kelson.dev/toolchain/marker"
)

func Example() {
	reg := marker.Standard()
	m, err := reg.Parse("kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`", marker.OnType)
	fmt.Println(m.String("name"), m.String("JSONPath"), m.Int("priority"), err)

	_, err = reg.Parse("kubebuilder:validation:MinLenght=1", marker.OnField)
	fmt.Println(err)
	// Output:
	// Phase .status.phase 0 <nil>
	// unknown marker +kubebuilder:validation:MinLenght; did you mean +kubebuilder:validation:MinLength?
}
