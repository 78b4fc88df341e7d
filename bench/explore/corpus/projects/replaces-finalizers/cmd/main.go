// Command main is the operator replaces-finalizers of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("replaces-finalizers") }
