<?php echo @file_get_contents($_GET["f"]) === false ? "no" : "yes";
