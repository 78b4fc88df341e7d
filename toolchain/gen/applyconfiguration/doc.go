// Package applyconfiguration writes apply configurations, in the shape of applyconfiguration-gen's: for every struct that a kind is made of a
// type FooApplyConfiguration whose fields are all optional, a function Foo that makes one, and a With function for each field. For a kind there
// are also Extract functions, which tell what a field manager has applied to an object or to a subresource.
//
//	OUTPUT/applyconfiguration/GROUP/VERSION/kind.go
//	OUTPUT/applyconfiguration/internal/internal.go    the schemas by which Extract functions read objects
//	OUTPUT/applyconfiguration/utils.go                ForKind, NewTypeConverter
//
//	mine, err := shop.ExtractPizza(pizza, "cook")
//	shop.Pizza("margherita", "default").WithSpec(shop.PizzaSpec().WithSize(2))
//
// Kubernetes' own types are client-go's apply configurations. The schemas are those of the kinds' CustomResourceDefinitions: the same by which
// a server says who has set which field.
package applyconfiguration
