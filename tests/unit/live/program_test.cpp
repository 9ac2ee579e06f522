// SPDX-License-Identifier: MIT
#include "tests/catch.hpp"
#include "tools/command/live/look.hpp"

#include <string>

using namespace custash::live;

TEST_CASE("a script stands for its interpreter") {
  CHECK(name_in({"python3", "train.py", "--lr", "1"}) == "train.py");
  CHECK(name_in({"/usr/bin/python3.11", "-u", "/data/train.py"}) == "train.py");
  CHECK(name_in({"python", "-X", "dev", "-W", "error", "x.py"}) == "x.py");
  CHECK(name_in({"python3", "-m", "torch.distributed.run", "a.py"}) == "torch.distributed.run");
  CHECK(name_in({"python3", "-um", "package.module"}) == "package.module");
  CHECK(name_in({"python3", "--", "-odd.py"}) == "-odd.py");
  CHECK(name_in({"bash", "job.sh"}) == "job.sh");
  CHECK(name_in({"python3", "-c", "import torch"}) == "python3 -c");
  CHECK(name_in({"python3"}) == "python3");
  CHECK(name_in({"/opt/lammps/bin/lmp", "-in", "x"}) == "lmp");
  CHECK(name_in({"pythonic", "x.py"}) == "pythonic");
  CHECK(name_in({}).empty());
}

TEST_CASE("a rank is the first number that a launcher has set") {
  using namespace std::string_literals;
  CHECK(rank_in("PATH=/bin\0RANK=3\0SLURM_PROCID=0\0"s) == 3);
  CHECK(rank_in("OMPI_COMM_WORLD_RANK=2\0"s) == 2);
  CHECK(rank_in("SLURM_PROCID=0\0PMI_RANK=1\0"s) == 1);
  CHECK(rank_in("SLURM_PROCID=12"s) == 12);
  CHECK_FALSE(rank_in("RANK=first\0XRANK=1\0RANKS=2\0"s));
  CHECK(rank_in("RANK=admiral\0PMIX_RANK=5\0"s) == 5);
  CHECK_FALSE(rank_in("RANK=-1\0"s));
  CHECK_FALSE(rank_in(""));
}
