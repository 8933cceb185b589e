<?php echo function_exists($_GET["f"]) ? "yes" : "no";
