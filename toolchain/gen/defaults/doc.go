// Package defaults generates functions that set default values:
//
//	func SetObjectDefaults_Pizza(in *Pizza)            for every kind with defaults
//	func RegisterDefaults(scheme *runtime.Scheme) error    has scheme.Default call them
//
// They set the values of +default markers, then call the hand-written functions
// SetDefaults_TYPE(*TYPE) for every value of such a type, outer values first. A default replaces
// nil pointers and zero values of other types. Defaults inside unnamed structs are set in place.
//
// If the registration of the package is generated too, AddToScheme calls RegisterDefaults.
package defaults
