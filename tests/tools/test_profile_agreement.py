"""Tests of the comparison of profiles."""

import unittest

from profile_agreement import agreement, inclusive, name_of, read_folded, top


class ProfileAgreement(unittest.TestCase):
    def test_a_function_counts_once_for_each_stack(self):
        stacks = read_folded("{main} /a.php;f;g;f 3\n{main} /a.php;g 1\nnot a stack\n")
        self.assertEqual(inclusive(stacks), {"f": 0.75, "g": 1.0})
        self.assertEqual(inclusive(read_folded("")), {})

    def test_both_profilers_name_functions_alike(self):
        for call, name in [("/srv/index.php", None), ("include() /a.php", None), ("{main}", None), ("", None),
                           ("A::b", "A::b"), ("{closure:/a.php(3)}", "{closure}"), ("A::{closure}", "{closure}")]:
            self.assertEqual(name_of(call), name)

    def test_functions_agree_if_both_have_them_at_the_top(self):
        excimer = {f"f{number}": 1 - number / 100 for number in range(20)}
        howdah = {**excimer, "f0": 0.01, "f19": 1}
        self.assertEqual(top(excimer, 2), ["f0", "f1"])
        self.assertEqual(agreement(excimer, howdah), 9)


if __name__ == "__main__":
    unittest.main()
